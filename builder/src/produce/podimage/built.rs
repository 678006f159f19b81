//! Builds a reproducible image with one layer: a static program as the entry point, and its
//! payload.

use super::layout::{Descriptor, Image};
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Context, Result};
use crate::plan::Architecture;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Mount points of the container runtime, which a read-only root must contain.
const FOLDERS: [&str; 6] = ["dev", "etc", "proc", "run", "sys", "tmp"];

/// Executable files by their absolute path in an image.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Makes an image whose entry point `/NAME` is `program`. `payload` has the programs that it
/// installs on the node.
pub fn from_program(
    store: &Store,
    name: &str,
    program: &[u8],
    payload: &Files,
    architecture: Architecture,
) -> Result<Image> {
    let layer =
        layer(name, program, payload).or_build(|| format!("cannot pack the image of `{name}`"))?;
    let layer = put(store, &layer, "application/vnd.oci.image.layer.v1.tar")?;
    let config = json!({
        "architecture": architecture.go(),
        "os": "linux",
        "config": { "Entrypoint": [format!("/{name}")] },
        // The layer is not compressed, so its digest is also its diff ID.
        "rootfs": { "type": "layers", "diff_ids": [layer.0.digest] },
    });
    let config =
        put(store, config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": kind, "config": config.0, "layers": [layer.0] });
    let manifest = put(store, manifest.to_string().as_bytes(), kind)?;
    Ok(Image { manifest: manifest.0, blobs: vec![layer.1, config.1, manifest.1] })
}

fn put(store: &Store, bytes: &[u8], media_type: &str) -> Result<(Descriptor, Digest)> {
    let digest = store.put_bytes(bytes)?;
    let size = bytes.len() as u64;
    let descriptor = Descriptor {
        media_type: media_type.into(),
        digest: format!("sha256:{}", digest.hex()),
        size,
        platform: None,
        annotations: BTreeMap::new(),
    };
    Ok((descriptor, digest))
}

fn layer(name: &str, program: &[u8], payload: &Files) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let payload = || payload.iter().map(|(path, bytes)| (path.trim_start_matches('/'), bytes));
    let above =
        payload().flat_map(|(path, _)| path.match_indices('/').map(|(end, _)| &path[..end]));
    // Sorted, so that each folder precedes its content.
    for folder in above.chain(FOLDERS).collect::<BTreeSet<_>>() {
        let mut header = header(0o755, 0);
        header.set_entry_type(tar::EntryType::Directory);
        tar.append_data(&mut header, format!("{folder}/"), std::io::empty())?;
    }
    tar.append_data(&mut header(0o755, program.len() as u64), name, program)?;
    for (path, bytes) in payload() {
        tar.append_data(&mut header(0o755, bytes.len() as u64), path, bytes.as_slice())?;
    }
    tar.into_inner()
}

fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}
