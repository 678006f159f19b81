//! Toolchains, unpacked once from the archives that a lock pins.

use super::action::Toolchain;
use super::digest::{Digest, Hasher};
use super::fs_error::IoContext;
use super::store::{Lock, Store};
use crate::error::{Context, Error, Result};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// The version of the layout. Raise it when the same archive gives another folder.
const LAYOUT: &str = "toolchain 1";

/// The Go toolchain in the zip file of its module, which need be neither in the store nor unpacked.
pub fn go(store: &Store, zip: &Digest) -> Toolchain {
    let key = key("go", &zip.hex());
    Toolchain { name: "go".into(), key, path: store.tree_root(&key) }
}

/// The Rust toolchain in the tar file with this SHA-256 in hexadecimal, which need be neither in
/// the store nor unpacked.
pub fn rust(store: &Store, sha256: &str) -> Toolchain {
    let key = key("rust", sha256);
    Toolchain { name: "rust".into(), key, path: store.tree_root(&key) }
}

/// Unpacks the Go toolchain once.
///
/// # Errors
/// The store does not have the file, or the file is malformed.
pub fn unpack_go(store: &Store, zip: &Digest) -> Result<()> {
    let unpack = |folder: &Path| {
        unzip(&store.path(zip)?, folder).or_build(|| "cannot unpack the Go toolchain".into())
    };
    store.tree(&go(store, zip).key, unpack).map(drop)
}

/// Unpacks the Rust toolchain once. The tar file is as large as the unpacked toolchain, so it is
/// removed afterwards if [`restore_rust`] can make it again.
///
/// # Errors
/// The store has neither, or the tar file is malformed.
pub fn unpack_rust(store: &Store, sha256: &str) -> Result<()> {
    let key = key("rust", sha256);
    let path = match store.find_tree(&key) {
        Some(path) => path,
        None => match unpack_tar(store, &key, sha256) {
            // Another step has unpacked it meanwhile, and removed the tar file.
            Err(error) => store.find_tree(&key).ok_or(error)?,
            unpacked => unpacked?,
        },
    };
    // An export that has restored the tar file holds the lock.
    if let Some(tar) = store.find(sha256)
        && let Some(_lock) = store.try_lock(&tar_lock(sha256))?
    {
        let mut again = Hasher::new(io::sink());
        pack(&path, &files(&path)?, &mut again)?;
        if again.digest() == tar {
            store.remove(&tar)?;
        }
    }
    Ok(())
}

/// Unpacks the tar file with this SHA-256 as a tree.
fn unpack_tar(store: &Store, key: &Digest, sha256: &str) -> Result<PathBuf> {
    let tar = store.path(&store.locked(sha256)?)?;
    let say = || "cannot unpack the Rust toolchain".to_owned();
    store.tree(key, |folder| {
        let file = BufReader::new(File::open(&tar).or_build(say)?);
        tar::Archive::new(file).unpack(folder).or_build(say)
    })
}

/// Whether the Rust toolchain with this SHA-256 is unpacked and need not be fetched.
pub fn has_rust(store: &Store, sha256: &str) -> bool {
    store.find_tree(&key("rust", sha256)).is_some()
}

/// Puts the tar file of the Rust toolchain into the store again, made from the unpacked toolchain.
/// No build removes it until the lock is dropped.
///
/// # Errors
/// The store has neither, or the unpacked toolchain was changed.
pub fn restore_rust(store: &Store, sha256: &str) -> Result<Lock> {
    let lock = store.lock_shared(&tar_lock(sha256))?;
    let Some(root) = store.find_tree(&key("rust", sha256)).filter(|_| store.find(sha256).is_none())
    else {
        return store.locked(sha256).map(|_| lock);
    };
    let mut incoming = store.incoming()?;
    pack(&root, &files(&root)?, &mut incoming)?;
    match incoming.finish()?.hex() == sha256 {
        true => Ok(lock),
        false => Err(Error::digest("the unpacked Rust toolchain differs from the locked one")
            .hint("cargo osbuild clean --damaged")),
    }
}

/// The name of the lock that keeps the tar file of the Rust toolchain. Exports share it.
fn tar_lock(sha256: &str) -> String {
    format!("rust-tar-{sha256}")
}

/// Packs these files of a Rust toolchain, relative to its root, without owners and times: the bytes
/// are the same on every machine.
pub fn pack(root: &Path, files: &BTreeSet<PathBuf>, to: impl Write) -> Result<()> {
    let say = || "cannot pack the Rust toolchain".to_owned();
    let mut tar = tar::Builder::new(BufWriter::new(to));
    for name in files {
        let mut file = File::open(root.join(name)).or_build(say)?;
        let about = file.metadata().or_build(say)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(about.len());
        header.set_mode(if about.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 });
        tar.append_data(&mut header, name, &mut file).or_build(say)?;
    }
    tar.into_inner().and_then(|mut file| file.flush()).or_build(say)
}

/// All files below a folder, relative to it.
fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at("read", &folder)? {
            let path = entry.at("read", &folder)?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.strip_prefix(root).unwrap_or(&path).to_owned())),
            }
        }
    }
    Ok(found)
}

/// The key of the folder that is unpacked from an archive.
fn key(name: &str, sha256: &str) -> Digest {
    Digest::of(format!("{LAYOUT}\n{name}\n{sha256}\n").as_bytes())
}

/// Unpacks the zip file of a Go module, which has no permission bits. Every name in it starts with
/// `MODULE@VERSION/`, where MODULE has one slash.
fn unzip(blob: &Path, folder: &Path) -> io::Result<()> {
    let mut archive =
        zip::ZipArchive::new(BufReader::new(File::open(blob)?)).map_err(io::Error::other)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(io::Error::other)?;
        let name = entry
            .enclosed_name()
            .ok_or_else(|| io::Error::other("a name in it leads out of the archive"))?;
        let inner = name
            .components()
            .skip(2)
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect::<PathBuf>();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn steps_that_need_the_rust_toolchain_at_once_all_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("rust");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("rustc"), "a compiler").unwrap();
        for round in 0..200 {
            let store = Store::open(folder.path().join(format!("store-{round}"))).unwrap();
            let mut tar = Vec::new();
            pack(&source, &files(&source).unwrap(), &mut tar).unwrap();
            let sha256 = store.put_bytes(&tar).unwrap().hex();
            let start = Barrier::new(4);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        unpack_rust(&store, &sha256).unwrap_or_else(|error| panic!("{error}"));
                    });
                }
            });
            assert!(has_rust(&store, &sha256) && store.find(&sha256).is_none());
        }
    }

    #[test]
    fn a_restored_toolchain_stays_while_it_is_exported() {
        let folder = tempfile::tempdir().unwrap();
        let (source, root) = (folder.path().join("rust"), folder.path().join("store"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("rustc"), "a compiler").unwrap();
        let (export, build) = (Store::open(root.clone()).unwrap(), Store::open(root).unwrap());
        let mut tar = Vec::new();
        pack(&source, &files(&source).unwrap(), &mut tar).unwrap();
        let sha256 = export.put_bytes(&tar).unwrap().hex();
        unpack_rust(&build, &sha256).unwrap();
        assert!(export.find(&sha256).is_none());
        let lock = restore_rust(&export, &sha256).unwrap();
        unpack_rust(&build, &sha256).unwrap();
        assert!(export.find(&sha256).is_some());
        drop(lock);
        unpack_rust(&build, &sha256).unwrap();
        assert!(export.find(&sha256).is_none(), "the unpacked toolchain is enough");
    }
}
