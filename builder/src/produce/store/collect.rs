//! How much the store holds, what can go, and whether it is what it says.

use super::Store;
use crate::error::{Error, Result};
use crate::produce::digest::{Digest, parse_hash};
use crate::produce::disk::{self, OnDisk};
use crate::produce::stop;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What takes room in the store, in bytes of disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Sources and products, by digest.
    pub blobs: u64,
    /// Unpacked sandbox roots and toolchains.
    pub trees: u64,
    /// Results of actions and steps, without their files.
    pub results: u64,
    /// What running builds have not finished.
    pub unfinished: u64,
    /// What was found damaged.
    pub damaged: u64,
}

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many files and trees.
    pub entries: u64,
    /// How many bytes of disk.
    pub bytes: u64,
}

impl Store {
    /// What takes room.
    pub fn sizes(&self) -> Result<Sizes> {
        let size = |name: &str| disk_usage(&self.root().join(name));
        Ok(Sizes {
            blobs: size("cas")?,
            trees: size("trees")?,
            results: size("ac")? + size("memo")?,
            unfinished: size("tmp")?,
            damaged: size("damaged")?,
        })
    }

    /// Removes what no build has used for `unused`: zero removes everything, with what ecosystems' clients keep for themselves. Refused
    /// while another build uses the store.
    pub fn collect(&self, unused: Duration) -> Result<Collected> {
        let collected = self.inner.session.alone(|| {
            let mut collected = Collected::default();
            let mut entries = self.entries()?;
            if unused.is_zero() {
                let clients = children(&self.root().join("clients"))?;
                entries.extend(clients.into_iter().map(|path| (path, SystemTime::UNIX_EPOCH)));
            }
            for (path, used) in entries {
                stop::check()?;
                if SystemTime::now().duration_since(used).unwrap_or_default() >= unused {
                    collected.bytes += disk_usage(&path)?;
                    collected.entries += 1;
                    disk::remove(&path)?;
                }
            }
            Ok(collected)
        })?;
        collected.ok_or_else(|| {
            Error::build("another build uses the store").hint("wait until it has ended, then run `cargo osbuild clean` again")
        })
    }

    /// Checks every stored byte, moves what is damaged away, and says what that was. `doing` hears which entry is looked at.
    pub fn verify(&self, doing: &dyn Fn(&str)) -> Result<Vec<String>> {
        let mut damaged = Vec::new();
        for path in self.blobs()? {
            stop::check()?;
            let name = name(&path);
            doing(&name);
            if parse_hash(&name) != Some(*Digest::of_file(&path)?.hash()) {
                self.take_away(&path, &mut damaged)?;
            }
        }
        for tree in children(&self.root().join("trees"))? {
            stop::check()?;
            doing(&name(&tree));
            if !self.tree_is_sound(&tree) {
                self.take_away(&tree, &mut damaged)?;
            }
        }
        Ok(damaged)
    }

    fn take_away(&self, path: &Path, damaged: &mut Vec<String>) -> Result<()> {
        let away = self.root().join("damaged").join(name(path));
        disk::remove(&away)?;
        fs::rename(path, &away).at("move away", path)?;
        damaged.push(path.strip_prefix(self.root()).unwrap_or(path).display().to_string());
        Ok(())
    }

    /// Everything that can go, and when it was last used.
    fn entries(&self) -> Result<Vec<(PathBuf, SystemTime)>> {
        let root = self.root();
        let mut entries = Vec::new();
        for path in self.blobs()?.into_iter().chain(children(&root.join("ac"))?) {
            entries.push((path.clone(), used(&path)?));
        }
        for kind in children(&root.join("memo"))? {
            for path in children(&kind)? {
                entries.push((path.clone(), used(&path)?));
            }
        }
        for tree in children(&root.join("trees"))? {
            let stamp = used(&tree.join("stamp")).unwrap_or(SystemTime::UNIX_EPOCH);
            entries.push((tree, stamp));
        }
        let spent = children(&root.join("damaged"))?.into_iter().chain(children(&root.join("locks"))?);
        // The locks that this very collection holds stay: a build that waits for them must not get a second file of that name.
        let spent = spent.filter(|path| !path.ends_with("locks/in-use") && !path.ends_with("locks/sessions"));
        entries.extend(spent.map(|path| (path, SystemTime::UNIX_EPOCH)));
        Ok(entries)
    }

    fn blobs(&self) -> Result<Vec<PathBuf>> {
        let mut blobs = Vec::new();
        for directory in children(&self.root().join("cas/sha256"))? {
            blobs.extend(children(&directory)?);
        }
        Ok(blobs)
    }
}

fn children(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).at("read", directory)?;
    let mut paths = entries.map(|entry| Ok(entry.at("read", directory)?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn used(path: &Path) -> Result<SystemTime> {
    fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).at("read", path)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What a file or a directory with all that is in it takes on the disk. What vanishes meanwhile takes nothing.
fn disk_usage(path: &Path) -> Result<u64> {
    let metadata: Metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        other => other.at("read", path)?,
    };
    let mut size = metadata.blocks() * 512;
    if metadata.is_dir() {
        for child in children(path).unwrap_or_default() {
            size += disk_usage(&child)?;
        }
    }
    Ok(size)
}
