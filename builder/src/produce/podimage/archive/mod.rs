//! Images that the user provides, pinned by digest: an OCI archive (a tar file) or an OCI image
//! layout (a folder).

use super::layout::{Descriptor, Image};
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result, in_words};
use crate::plan::Architecture;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

/// The maximum size of an index, a manifest or a configuration in bytes.
const MAX_JSON: u64 = 4 << 20;
/// The maximum depth of nested indexes.
const MAX_DEPTH: u32 = 4;

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// The platform in an image's configuration (OCI "Image Configuration"), where both are required.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

/// Reads the image for `architecture` from `path`. The digest of the archive, or of a folder's
/// `index.json`, must be `pinned`.
///
/// # Errors
/// The digest differs, a blob is missing or damaged, or no image is for `architecture`.
pub fn from_archive(
    store: &Store,
    path: &Path,
    pinned: &str,
    architecture: Architecture,
) -> Result<Image> {
    let unpacked;
    let folder = if path.is_dir() {
        pin(path, Digest::of_file(&path.join("index.json"))?, pinned)?;
        path
    } else {
        pin(path, Digest::of_file(path)?, pinned)?;
        unpacked = store.scratch()?;
        unpack(path, unpacked.path())?;
        unpacked.path()
    };
    if !folder.join("index.json").is_file() {
        return Err(Error::build(format!(
            "`{}` is not an OCI archive: it has no index.json",
            path.display()
        ))
        .hint("make one with `skopeo copy docker-archive:FILE oci-archive:FILE`"));
    }
    let text = read_small(&folder.join("index.json"))?;
    let index: Index = serde_json::from_slice(&text)
        .or_build(|| format!("`{}` has a damaged index.json", path.display()))?;
    let (blobs, indexes, others) = Default::default();
    let reader = Reader { store, folder, architecture, blobs, indexes, others };
    reader.image(index, path)
}

/// Puts the files of an image into the store unchanged: the archive, or the `index.json` of a
/// layout, whose digest must be `pinned`. Returns the blobs of a layout, for all architectures.
///
/// # Errors
/// The digest differs, or a file cannot be read.
pub fn keep(store: &Store, path: &Path, pinned: &str) -> Result<Vec<Digest>> {
    if !path.is_dir() {
        pin(path, store.put_file(path)?, pinned)?;
        return Ok(Vec::new());
    }
    pin(path, store.put_file(&path.join("index.json"))?, pinned)?;
    let folder = path.join("blobs/sha256");
    let mut blobs = Vec::new();
    for entry in
        std::fs::read_dir(&folder).or_build(|| format!("cannot read `{}`", folder.display()))?
    {
        let path = entry.or_build(|| format!("cannot read `{}`", folder.display()))?.path();
        blobs.push(store.put_file(&path)?);
    }
    blobs.sort();
    Ok(blobs)
}

fn pin(path: &Path, found: Digest, pinned: &str) -> Result<()> {
    let found = format!("sha256:{}", found.hex());
    if found == pinned {
        return Ok(());
    }
    Err(Error::digest(format!("`{}` is not the image that the recipe pins", path.display()))
        .cause(format!("the recipe has {pinned}"))
        .cause(format!("the file has {found}"))
        .hint(format!("if the change is intended, set `digest = \"{found}\"` in the recipe")))
}

/// Unpacks the regular files of the archive below `folder`.
fn unpack(path: &Path, folder: &Path) -> Result<()> {
    let not_tar = || format!("`{}` is not a tar file", path.display());
    let mut tar = tar::Archive::new(
        File::open(path).or_build(|| format!("cannot open `{}`", path.display()))?,
    );
    for entry in tar.entries().or_build(not_tar)? {
        let mut entry = entry.or_build(not_tar)?;
        let name = entry.path().or_build(not_tar)?.into_owned();
        let plain =
            name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !entry.header().entry_type().is_file() || !plain {
            continue;
        }
        let to = folder.join(&name);
        std::fs::create_dir_all(to.parent().unwrap_or(folder))
            .or_build(|| "cannot unpack an image".into())?;
        let mut file = File::create(&to).or_build(|| "cannot unpack an image".into())?;
        std::io::copy(&mut entry, &mut file).or_build(not_tar)?;
    }
    Ok(())
}

fn read_small(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).or_build(|| format!("cannot open `{}`", path.display()))?;
    file.take(MAX_JSON)
        .read_to_end(&mut bytes)
        .or_build(|| format!("cannot read `{}`", path.display()))?;
    Ok(bytes)
}

fn expect(found: Digest, descriptor: &Descriptor) -> Result<()> {
    let found = format!("sha256:{}", found.hex());
    if found == descriptor.digest {
        return Ok(());
    }
    Err(Error::digest(format!(
        "a blob of the image is damaged: it should be {}, but is {found}",
        descriptor.digest
    )))
}

struct Reader<'a> {
    store: &'a Store,
    folder: &'a Path,
    architecture: Architecture,
    blobs: BTreeMap<String, Digest>,
    /// The nested indexes that were read.
    indexes: BTreeSet<String>,
    /// The platforms of skipped images, such as `linux/arm64`.
    others: BTreeSet<String>,
}

impl Reader<'_> {
    fn image(mut self, index: Index, path: &Path) -> Result<Image> {
        let manifest = self.choose(index, MAX_DEPTH)?.ok_or_else(|| self.none(path))?;
        let text = self.blob(&manifest)?;
        let parsed: Manifest = serde_json::from_slice(&text)
            .or_build(|| format!("`{}` has a damaged manifest", path.display()))?;
        self.blob(&parsed.config)?;
        for layer in &parsed.layers {
            self.blob_file(layer)?;
        }
        let manifest = Descriptor { annotations: BTreeMap::new(), ..manifest };
        Ok(Image { manifest, blobs: self.blobs.into_values().collect() })
    }

    /// The error for an archive without an image for the node.
    fn none(&self, path: &Path) -> Error {
        let architecture = self.architecture.go();
        let error = Error::build(format!("`{}` has no image for {architecture}", path.display()));
        let error = match self.others.is_empty() {
            true => error,
            false => error.cause(format!(
                "it has images for {}",
                in_words(self.others.iter().map(String::as_str))
            )),
        };
        error.hint(format!(
            "use one for the board: `podman pull --arch {architecture} IMAGE`, then \
             `podman save --format oci-archive IMAGE`"
        ))
    }

    /// The first manifest for the node's architecture. The platform in an index may be missing
    /// (`podman save` writes none) or wrong, so the image's configuration decides.
    fn choose(&mut self, index: Index, depth: u32) -> Result<Option<Descriptor>> {
        for descriptor in &index.manifests {
            if let Some(platform) = &descriptor.platform
                && !self.fits(&platform.os, &platform.architecture)
            {
                continue;
            }
            if !descriptor.media_type.contains("index")
                && !descriptor.media_type.contains("manifest.list")
            {
                if self.is_ours(descriptor)? {
                    return Ok(Some(descriptor.clone()));
                }
            } else if depth > 0 && self.indexes.insert(descriptor.digest.clone()) {
                let inner = self.read(descriptor)?;
                let inner = serde_json::from_slice(&inner)
                    .or_build(|| "an index inside the image is damaged".into())?;
                if let Some(found) = self.choose(inner, depth - 1)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Whether the configuration of a manifest's image is for the node's platform.
    fn is_ours(&mut self, manifest: &Descriptor) -> Result<bool> {
        let damaged = |what: &str| format!("the {what} of an image is damaged");
        let parsed: Manifest =
            serde_json::from_slice(&self.read(manifest)?).or_build(|| damaged("manifest"))?;
        let config: Config = serde_json::from_slice(&self.read(&parsed.config)?)
            .or_build(|| damaged("configuration"))?;
        Ok(self.fits(&config.os, &config.architecture))
    }

    /// Whether this is the node's platform. Any other is recorded for the error.
    fn fits(&mut self, os: &str, architecture: &str) -> bool {
        let fits = os == "linux" && architecture == self.architecture.go();
        if !fits {
            self.others.insert(match (os, architecture) {
                ("", _) | (_, "") => "unknown".to_owned(),
                _ => format!("{os}/{architecture}"),
            });
        }
        fits
    }

    fn blob(&mut self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        self.blob_file(descriptor)?;
        self.read(descriptor)
    }

    fn blob_file(&mut self, descriptor: &Descriptor) -> Result<()> {
        let digest = self.store.put_file(&self.path(descriptor)?)?;
        expect(digest, descriptor)?;
        self.blobs.insert(descriptor.digest.clone(), digest);
        Ok(())
    }

    /// The bytes of a blob, checked against its digest.
    fn read(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let bytes = read_small(&self.path(descriptor)?)?;
        expect(Digest::of(&bytes), descriptor)?;
        Ok(bytes)
    }

    fn path(&self, descriptor: &Descriptor) -> Result<std::path::PathBuf> {
        let hex = descriptor
            .digest
            .strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let hex = hex.ok_or_else(|| {
            Error::build(format!(
                "the image names a blob `{}`, which is not a SHA-256 digest",
                descriptor.digest
            ))
        })?;
        Ok(self.folder.join("blobs/sha256").join(hex))
    }
}

#[cfg(test)]
mod tests;
