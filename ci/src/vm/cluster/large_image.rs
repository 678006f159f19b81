//! An image of 2 GiB: one of the lab with one more layer, whose bytes no compression makes fewer.

use super::images::NamedImage;
use super::registry::write_layout;
use osbuild::engine::digest::{Digest, Hasher};
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The size of the file in the layer, and its path in the image.
pub const SIZE: u64 = 2 << 30;
const PATH: &str = "large";

/// The type of a layer without compression
/// (`https://github.com/opencontainers/image-spec/blob/main/media-types.md`).
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Writes an OCI layout with `base` and the layer.
pub fn write(store: &Store, base: &NamedImage, layout: &Path) -> Result<()> {
    write_layout(store, base, layout)?;
    let layer = write_layer(layout)?;
    let mut index = read(&layout.join("index.json"))?;
    let mut manifest = read(&blob(layout, &index["manifests"][0])?)?;
    let mut config = read(&blob(layout, &manifest["config"])?)?;
    append(&mut config["rootfs"]["diff_ids"], layer["digest"].clone())?;
    append(&mut manifest["layers"], layer)?;
    write_blob(layout, &config, &mut manifest["config"])?;
    write_blob(layout, &manifest, &mut index["manifests"][0])?;
    let cannot = || "cannot write the index of the large image".to_owned();
    fs::write(layout.join("index.json"), index.to_string()).or_build(cannot)
}

/// Writes the layer, and returns its descriptor.
fn write_layer(layout: &Path) -> Result<Value> {
    let cannot = || "cannot write the layer of the large image".to_owned();
    let path = layout.join("layer.tar");
    let file = BufWriter::with_capacity(1 << 20, File::create(&path).or_build(cannot)?);
    let mut archive = tar::Builder::new(Hasher::new(file));
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(SIZE);
    archive.append_data(&mut header, PATH, Noise(1).take(SIZE)).or_build(cannot)?;
    let mut written = archive.into_inner().or_build(cannot)?;
    written.flush().or_build(cannot)?;
    let digest = written.digest();
    fs::rename(&path, layout.join("blobs/sha256").join(digest.hex())).or_build(cannot)?;
    Ok(describe(json!({ "mediaType": LAYER }), digest))
}

/// A descriptor, now of a blob with this digest.
fn describe(mut descriptor: Value, digest: Digest) -> Value {
    descriptor["digest"] = format!("sha256:{digest}").into();
    descriptor["size"] = digest.size().into();
    descriptor
}

/// Writes a blob in the place of the one that this descriptor names, and corrects the descriptor.
fn write_blob(layout: &Path, content: &Value, descriptor: &mut Value) -> Result<()> {
    let text = content.to_string();
    *descriptor = describe(descriptor.take(), Digest::of(text.as_bytes()));
    let cannot = || "cannot write a blob of the large image".to_owned();
    fs::write(blob(layout, descriptor)?, text).or_build(cannot)
}

/// The file of the blob that a descriptor names.
fn blob(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let digest =
        digest.ok_or_else(|| Error::build("an image has a descriptor without a digest"))?;
    Ok(layout.join("blobs/sha256").join(digest))
}

fn read(file: &Path) -> Result<Value> {
    let cannot = || format!("cannot read `{}`", file.display());
    serde_json::from_slice(&fs::read(file).or_build(cannot)?).or_build(cannot)
}

fn append(list: &mut Value, item: Value) -> Result<()> {
    let list = list.as_array_mut();
    list.ok_or_else(|| Error::build("an image lacks a list")).map(|list| list.push(item))
}

/// Bytes that look random, and are the same each time: xorshift64 (Marsaglia, "Xorshift RNGs").
struct Noise(u64);

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for bytes in buffer.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.copy_from_slice(&self.0.to_le_bytes()[..bytes.len()]);
        }
        Ok(buffer.len())
    }
}
