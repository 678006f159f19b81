//! The initramfs: `init`, the inventory, and the layers of the root as file systems.

use super::build::Build;
use super::draft::Draft;
use super::inventory::PATH;
use super::layers::BuiltLayer;
use super::out::{INITRAMFS, Out};
use super::parts::Parts;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::engine::store::Store;
use crate::error::{Context, Result};
use osbuild_abi::paths;
use osbuild_formats::cpio::{self, Entry};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The device number of `/dev/console`, to which `init` writes before it has mounted anything
/// (Documentation/admin-guide/devices.txt).
const CONSOLE: (u32, u32) = (5, 1);

/// Writes the initramfs into `out`, layer by layer: it may be larger than memory.
///
/// # Errors
/// A layer is gone from the store or damaged, or the disk is full.
pub fn write(build: &Build<'_>, parts: &Parts, out: &Out) -> Result<Draft> {
    let mut draft = Draft::create(out.path(INITRAMFS))?;
    let store = build.options.store;
    draft.write(build.options.report, "initramfs", |to, path| pack(store, parts, to, path))?;
    Ok(draft)
}

/// Writes the cpio archive to `out`. `path` is for errors.
fn pack(store: &Store, parts: &Parts, out: &mut impl Write, path: &Path) -> Result<()> {
    let mut entries = vec![
        Entry::directory("/dev", 0o755),
        Entry::char_device("/dev/console", 0o600, CONSOLE.0, CONSOLE.1),
        Entry::file(paths::EARLY_INIT, 0o755, store.read(&parts.init)?),
        Entry::file(&format!("/{PATH}"), 0o444, parts.inventory.json().into_bytes()),
        Entry::directory(paths::LAYERS, 0o755),
    ];
    let named = |(index, layer): (usize, &BuiltLayer)| {
        (format!("{}/{index:02}-{}.erofs", paths::LAYERS, layer.name), layer.image)
    };
    let layers: BTreeMap<String, Digest> = parts.layers.iter().enumerate().map(named).collect();
    entries.extend(layers.iter().map(|(name, image)| Entry::sized(name, 0o444, image.size())));
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let mut failure = None;
    let packed = cpio::write_with(&entries, out, |name, to| {
        store.write_to(&layers[name], to, path).map_err(|error| {
            failure = Some(error);
            std::io::ErrorKind::Other.into()
        })
    });
    match (failure, packed) {
        (Some(error), _) => Err(error),
        (None, Err(cpio::Error::Io(error))) => Err(error).at("write", path),
        (None, packed) => packed.map(drop).or_build(|| "cannot pack the initramfs".into()),
    }
}
