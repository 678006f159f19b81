//! Toolchains, unpacked once out of the blobs that the lock pins.

use super::action::Toolchain;
use super::digest::Digest;
use super::store::Store;
use crate::error::{Context, Result};
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// To be counted up when the same blob is to give another folder.
const LAYOUT: &str = "toolchain 1";

/// The Go toolchain out of its module's zip file.
pub fn go(store: &Store, zip: &Digest) -> Result<Toolchain> {
    unpacked(store, "go", zip, |blob, folder| unzip(blob, folder).or_build(|| "cannot unpack the Go toolchain".into()))
}

/// The Rust toolchain out of the tar file that `fetch` made of it.
pub fn rust(store: &Store, tar: &Digest) -> Result<Toolchain> {
    unpacked(store, "rust", tar, |blob, folder| {
        let mut archive = tar::Archive::new(BufReader::new(File::open(blob).or_build(|| "cannot open the Rust toolchain".into())?));
        archive.unpack(folder).or_build(|| "cannot unpack the Rust toolchain".into())
    })
}

fn unpacked(store: &Store, name: &str, blob: &Digest, fill: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<Toolchain> {
    let key = Digest::of(format!("{LAYOUT}\n{name}\n{}\n", blob.hex()).as_bytes());
    let path = store.tree(&key, |folder| fill(&store.path(blob)?, folder))?;
    Ok(Toolchain { name: name.into(), key, path })
}

/// A module's zip has no permission bits, and every name starts with `MODULE@VERSION/`, where MODULE has one slash.
fn unzip(blob: &Path, folder: &Path) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(blob)?)).map_err(io::Error::other)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(io::Error::other)?;
        let name = entry.enclosed_name().ok_or_else(|| io::Error::other("a name in it leads out of the archive"))?;
        let inner = name.components().skip(2).filter(|part| matches!(part, Component::Normal(_))).collect::<PathBuf>();
        if entry.is_dir() || inner.as_os_str().is_empty() {
            continue;
        }
        let to = folder.join(&inner);
        fs::create_dir_all(to.parent().unwrap_or(folder))?;
        io::copy(&mut entry, &mut File::create(&to)?)?;
        if inner.starts_with("bin") || inner.starts_with("pkg/tool") {
            fs::set_permissions(&to, Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}
