//! Takes results from a folder or a registry into the store.

use super::list::{List, files};
use super::place::Source;
use super::{ARTIFACT, LIST, MAX_LIST};
use crate::engine::action::Origin;
use crate::engine::digest::{CHUNK, Digest};
use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::engine::store::{Incoming, Store};
use crate::error::{Error, Result};
use crate::produce::sign::ReleasePublicKey;
use crate::report::{Outcome, Report};
use oci_client::manifest::OciImageManifest;
use std::fs::File;
use std::io::{Read, Write};

/// The counters of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The number of results that the store lacked.
    pub new: usize,
    /// The number of results that the store has already.
    pub known: usize,
    /// The bytes that were read.
    pub bytes: u64,
}

/// Takes the results that the store lacks. They count for builds as those of a shared cache do, and
/// their origin is the digest of the artifact.
///
/// # Errors
/// There is no artifact, none of the keys has signed its list, a file is missing or damaged, or the
/// store cannot be written. Results before the error are kept.
pub fn import(
    store: &Store,
    report: &Report,
    keys: &[ReleasePublicKey],
    source: &Source,
) -> Result<Imported> {
    let step = report.step("import");
    let manifest = source.manifest()?;
    let origin = format!("results@sha256:{}", Digest::of(&manifest));
    let list = read_list(store, &manifest, keys, source)?;
    let mut imported = Imported::default();
    let results = list.results()?;
    let count = results.len();
    for (number, (name, action, mut result)) in (1..).zip(results) {
        stop::check()?;
        // Those of this machine stay, whatever the files in the list are.
        if store.recall(&action).is_some() {
            imported.known += 1;
            continue;
        }
        let lacking = list.kept(files(&result).into_iter().filter(|file| !store.contains(file)))?;
        if lacking.is_empty() && store.record(&action).is_some() {
            imported.known += 1;
            continue;
        }
        for (file, kept) in lacking {
            let size = crate::report::bytes(kept.size());
            step.doing(format!("{number} of {count}: {name}, {size}"));
            imported.bytes += take(store, source, &file, &kept)?;
        }
        result.origin = Some(Origin::Cache(origin.clone()));
        store.remember(&action, &result)?;
        imported.new += 1;
    }
    step.done(&format!("{} results", imported.new), Some(imported.bytes), Outcome::Fetched);
    Ok(imported)
}

/// The list of results, once one of the keys is found to have signed it.
fn read_list(
    store: &Store,
    manifest: &[u8],
    keys: &[ReleasePublicKey],
    source: &Source,
) -> Result<List> {
    let wrong = |what: &str| Error::digest(format!("{source} {what}"));
    let manifest: OciImageManifest = serde_json::from_slice(manifest)
        .map_err(|error| wrong("has a malformed manifest").cause(error))?;
    if manifest.artifact_type.as_deref() != Some(ARTIFACT) {
        return Err(wrong("has no results of builds").cause(format!(
            "the type of its artifact is {:?}, not `{ARTIFACT}`",
            manifest.artifact_type.unwrap_or_default()
        )));
    }
    let list = manifest.layers.iter().find(|layer| layer.media_type == LIST);
    let list = list.and_then(|layer| {
        let size = u64::try_from(layer.size).ok().filter(|size| *size <= MAX_LIST)?;
        Digest::parse(layer.digest.strip_prefix("sha256:")?, size)
    });
    let list = list.ok_or_else(|| wrong("has no list of results"))?;
    let incoming = fetch(store, source, &list)?;
    let envelope = std::fs::read(incoming.path()).at("read", incoming.path())?;
    List::open(&envelope, keys).map_err(|error| error.cause(format!("it is the list of {source}")))
}

/// Puts a file of a result into the store, and returns the number of bytes that were read.
fn take(store: &Store, source: &Source, file: &Digest, kept: &Digest) -> Result<u64> {
    let compressed = fetch(store, source, kept)?;
    let path = compressed.path();
    let wrong = || Error::digest(format!("{source} has other bytes for the file {file}"));
    let from = File::open(path).at("read", path)?;
    let mut from = zstd::Decoder::new(from).at("read", path)?.take(file.size() + 1);
    let (mut to, mut chunk) = (store.incoming()?, vec![0; CHUNK]);
    loop {
        match from.read(&mut chunk).map_err(|error| wrong().cause(error))? {
            0 => break,
            read => to.write_all(&chunk[..read]).at("write", to.path())?,
        }
    }
    if to.digest() != *file {
        return Err(wrong());
    }
    to.finish().map(|_| kept.size())
}

/// The bytes with this digest, in an unfinished file of the store.
fn fetch(store: &Store, source: &Source, digest: &Digest) -> Result<Incoming> {
    let mut incoming = store.incoming()?;
    source.read(digest, &mut incoming)?;
    match incoming.digest() == *digest {
        true => Ok(incoming),
        false => {
            Err(Error::digest(format!("{source} has other bytes in place of the blob {digest}")))
        }
    }
}
