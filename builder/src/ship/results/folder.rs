//! The artifact as an OCI image layout in a folder.
//! <https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md>

use super::{ARTIFACT, MAX_MANIFEST};
use crate::engine::digest::Digest;
use crate::engine::fs_error::{IoContext, remove};
use crate::engine::store::Lock;
use crate::error::{Error, Result};
use oci_client::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file that makes a folder an image layout.
const LAYOUT: &str = "oci-layout";
/// The file that names the manifests.
const INDEX: &str = "index.json";

/// A folder with one artifact.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The artifact in this folder, which need not exist.
    pub fn at(path: &Path) -> Self {
        Folder { path: path.to_owned() }
    }

    /// Makes the folder, or opens it for another artifact. No other export writes into it before
    /// the lock is dropped.
    ///
    /// # Errors
    /// It has other files than artifacts, another export writes into it, or it cannot be written.
    pub fn open(&self) -> Result<Lock> {
        fs::create_dir_all(&self.path).at("make", &self.path)?;
        let lock = Lock::of_export(&self.path)?;
        let is_empty = fs::read_dir(&self.path).at("read", &self.path)?.next().is_none();
        if !is_empty && !self.has_only_artifacts() {
            let error = Error::usage(format!("`{}` has other files", self.path.display()));
            return Err(error.hint("name a new folder, or one of an earlier export"));
        }
        if is_empty {
            // They come before the first blob: an interrupted export can be repeated.
            self.write_index(&[])?;
        }
        fs::create_dir_all(self.blobs()).at("make", &self.blobs())?;
        Ok(lock)
    }

    /// Whether this is an image layout without images of others, which the end of an export would
    /// remove.
    fn has_only_artifacts(&self) -> bool {
        let is_artifact = |entry: &Value| entry["artifactType"] == ARTIFACT;
        let index = read(&self.path.join(INDEX), MAX_MANIFEST).ok();
        let index = index.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let manifests = index.as_ref().and_then(|index| index["manifests"].as_array());
        self.path.join(LAYOUT).is_file()
            && manifests.is_some_and(|manifests| manifests.iter().all(is_artifact))
    }

    /// The path of a file, which need not exist.
    pub fn file(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// An unused path for a file whose digest is not known yet.
    pub fn unfinished(&self) -> PathBuf {
        self.path.join("unfinished")
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest> {
        let (unfinished, digest) = (self.unfinished(), Digest::of(bytes));
        fs::write(&unfinished, bytes).at("write", &unfinished)?;
        fs::rename(&unfinished, self.file(&digest)).at("write", &self.file(&digest))?;
        Ok(digest)
    }

    /// Ends an export: the folder has the artifact with this manifest, in place of an earlier one,
    /// and the files in `kept` and no others.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn finish(&self, manifest: &[u8], mut kept: BTreeSet<Digest>) -> Result<Digest> {
        let digest = self.put(manifest)?;
        kept.insert(digest);
        let entry = json!({
            "mediaType": OCI_IMAGE_MEDIA_TYPE,
            "digest": format!("sha256:{digest}"),
            "size": digest.size(),
            "artifactType": ARTIFACT,
        });
        self.write_index(&[entry])?;
        let kept: BTreeSet<String> = kept.iter().map(Digest::hex).collect();
        for entry in fs::read_dir(self.blobs()).at("read", &self.blobs())? {
            let entry = entry.at("read", &self.blobs())?;
            let is_kept = entry.file_name().to_str().is_some_and(|name| kept.contains(name));
            if !is_kept {
                remove(&entry.path())?;
            }
        }
        Ok(digest)
    }

    /// The bytes of the manifest.
    ///
    /// # Errors
    /// The folder has no artifact.
    pub fn manifest(&self) -> Result<Vec<u8>> {
        let none = |cause: String| {
            Error::usage(format!("`{}` has no exported results", self.path.display()))
                .cause(cause)
                .hint("write them with `cargo osbuild results export RECIPE --to DIR`")
        };
        let index = self.path.join(INDEX);
        let text = read(&index, MAX_MANIFEST)
            .map_err(|error| none(format!("`{}`: {error}", index.display())))?;
        let index: Value =
            serde_json::from_slice(&text).map_err(|error| none(error.to_string()))?;
        let mut manifests = index["manifests"].as_array().into_iter().flatten();
        let entry = manifests
            .find(|entry| entry["artifactType"] == ARTIFACT)
            .ok_or_else(|| none(format!("its index names no artifact of the type {ARTIFACT}")))?;
        let hex = entry["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let digest = hex.zip(entry["size"].as_u64());
        let digest = digest
            .and_then(|(hex, size)| Digest::parse(hex, size))
            .ok_or_else(|| none("its index has a malformed digest".to_owned()))?;
        let file = self.file(&digest);
        read(&file, MAX_MANIFEST).at("read", &file)
    }

    fn blobs(&self) -> PathBuf {
        self.path.join("blobs/sha256")
    }

    /// Writes the files of an image layout with these manifests.
    fn write_index(&self, manifests: &[Value]) -> Result<()> {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE,
            "manifests": manifests,
        });
        self.replace(INDEX, &index)?;
        self.replace(LAYOUT, &json!({ "imageLayoutVersion": "1.0.0" }))
    }

    fn replace(&self, name: &str, content: &Value) -> Result<()> {
        let (unfinished, path) = (self.unfinished(), self.path.join(name));
        fs::write(&unfinished, content.to_string()).at("write", &unfinished)?;
        fs::rename(&unfinished, &path).at("write", &path)
    }
}

/// The bytes of a file of at most `max` bytes.
fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max {
        true => Err(io::Error::other(format!("it has more than {max} bytes"))),
        false => Ok(bytes),
    }
}
