//! Writes the results of a build into a folder.

use super::folder::Folder;
use super::list::{List, files};
use super::{ARTIFACT, EMPTY, EMPTY_BYTES, FILE, LIST};
use crate::engine::action::ActionResult;
use crate::engine::digest::Digest;
use crate::engine::executor::Made;
use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::engine::store::Store;
use crate::error::{Error, Result};
use crate::produce::sign::ReleaseSigner;
use crate::report::{Outcome, Report};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};

/// The level of zstd: half of the time of a higher one, for files that are 3 % larger.
const LEVEL: i32 = 9;

/// The hint for a result that the store no longer has as the build left it.
const AGAIN: &str = "run the same command again: the step runs again";

/// The manifest and the size of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The manifest of the artifact.
    pub manifest: Digest,
    /// The number of results.
    pub results: usize,
    /// The bytes of all files, as they are kept.
    pub bytes: u64,
}

/// Writes the results of steps, which this machine must have made, into a folder, and signs their
/// list.
///
/// # Errors
/// The store lacks a result or a file of it, or has the result of another machine; the key cannot
/// sign, or the folder cannot be written.
pub fn export(
    store: &Store,
    report: &Report,
    made: &[(String, Made)],
    key: &dyn ReleaseSigner,
    folder: &Folder,
) -> Result<Exported> {
    let _lock = folder.open()?;
    let step = report.step("export");
    let (mut list, mut kept) = (List::default(), BTreeMap::new());
    for (name, Made { action, has_files, .. }) in made {
        step.doing(name.clone());
        let result = own_result(store, name, action)?;
        list.add(name, action, &result);
        // The store may lack files of a step whose result was enough for the build. Another build
        // does not need them either, and none needs a log.
        let mut outputs = result.outputs.values().map(|output| output.digest);
        if *has_files && let Some(lost) = outputs.find(|file| !store.contains(file)) {
            let error = Error::build(format!("the store lost the file {lost} of `{name}`"));
            return Err(error.hint(AGAIN));
        }
        for file in files(&result).into_iter().filter(|file| store.contains(file)) {
            stop::check()?;
            if let std::collections::btree_map::Entry::Vacant(new) = kept.entry(file) {
                new.insert(compress(store, &file, folder)?);
            }
        }
    }
    kept.iter().for_each(|(file, kept)| list.keep(file, kept));
    let envelope = folder.put(&list.seal(key)?)?;
    let empty = folder.put(EMPTY_BYTES)?;
    let layers: BTreeSet<Digest> = kept.into_values().collect();
    let bytes = layers.iter().map(Digest::size).sum();
    let manifest = OciImageManifest {
        media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
        artifact_type: Some(ARTIFACT.to_owned()),
        config: descriptor(EMPTY, &empty),
        layers: [descriptor(LIST, &envelope)]
            .into_iter()
            .chain(layers.iter().map(|layer| descriptor(FILE, layer)))
            .collect(),
        ..OciImageManifest::default()
    };
    let manifest = serde_json::to_vec(&manifest).expect("strings and numbers always serialize");
    let manifest = folder.finish(&manifest, &layers | &[envelope, empty].into())?;
    let results = made.len();
    step.done(&format!("{results} results"), Some(bytes), Outcome::Ran);
    Ok(Exported { manifest, results, bytes })
}

/// The result of a step of this machine.
fn own_result(store: &Store, name: &str, action: &Digest) -> Result<ActionResult> {
    let result = store.record(action).ok_or_else(|| {
        Error::build(format!("the store lost the result of `{name}`")).hint(AGAIN)
    })?;
    match &result.origin {
        None => Ok(result),
        // Another command may have brought it after the build.
        Some(origin) => Err(Error::build(format!("the result of `{name}` is not of this machine"))
            .cause(format!("where it was made: {origin}"))
            .hint(AGAIN)),
    }
}

/// Puts a file of the store into the folder, compressed.
fn compress(store: &Store, file: &Digest, folder: &Folder) -> Result<Digest> {
    let unfinished = folder.unfinished();
    let to = File::create(&unfinished).at("write", &unfinished)?;
    let mut encoder = zstd::Encoder::new(to, LEVEL).at("write", &unfinished)?;
    encoder.include_checksum(false).at("write", &unfinished)?;
    store.write_to(file, &mut encoder, &unfinished)?;
    encoder.finish().at("write", &unfinished)?;
    let kept = Digest::of_file(&unfinished)?;
    fs::rename(&unfinished, folder.file(&kept)).at("write", &folder.file(&kept))?;
    Ok(kept)
}

fn descriptor(media_type: &str, digest: &Digest) -> OciDescriptor {
    OciDescriptor {
        media_type: media_type.to_owned(),
        digest: format!("sha256:{digest}"),
        size: digest.size() as i64,
        ..OciDescriptor::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::action::{Origin, OutputFile};
    use crate::produce::sign::ReleaseKey;
    use crate::report::{Color, Verbosity};

    /// Exports a step with this result, of which a build had the files or not.
    fn export_one(store: &Store, result: &ActionResult, has_files: bool) -> Result<Exported> {
        let (action, folder) = (Digest::of(b"action"), tempfile::tempdir().unwrap());
        store.remember(&action, result).unwrap();
        let made = [("a step".to_owned(), Made { action, origin: None, has_files })];
        let report = Report::new(Verbosity::Quiet, Color::Never);
        let key = ReleaseKey::generate().unwrap();
        export(store, &report, &made, &key, &Folder::at(folder.path()))
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        (folder, store)
    }

    fn result(output: Digest) -> ActionResult {
        let output = OutputFile { digest: output, executable: false };
        ActionResult { outputs: [("out".to_owned(), output)].into(), ..Default::default() }
    }

    #[test]
    fn a_result_of_another_machine_is_not_signed() {
        let (_folder, store) = store();
        let own = result(store.put_bytes(b"file").unwrap());
        assert_eq!(export_one(&store, &own, true).unwrap().results, 1);
        let origin = Some(Origin::Cache("results@sha256:00".to_owned()));
        let error = export_one(&store, &ActionResult { origin, ..own }, true);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`a step` is not of this machine"), "{error}");
        assert!(error.contains("results@sha256:00"), "{error}");
    }

    #[test]
    fn a_file_that_a_build_had_must_be_there() {
        let (_folder, store) = store();
        let gone = result(Digest::of(b"gone"));
        assert_eq!(export_one(&store, &gone, false).unwrap().results, 1);
        let error = export_one(&store, &gone, true).unwrap_err().to_string();
        assert!(error.contains("the store lost the file"), "{error}");
    }
}
