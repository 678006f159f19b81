//! The root of the sandbox: locked Debian packages, unpacked without dpkg and without their maintainer scripts.

use super::deb;
use super::digest::{Digest, Hasher};
use super::disk::OnDisk;
use super::store::Store;
use crate::error::{Error, Result};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// To be counted up when the same packages are to give another root.
const LAYOUT: &str = "sandbox root 1";

/// The directories that Debian merged into `/usr`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Where the sandbox mounts something.
const MOUNT_POINTS: [&str; 5] = ["build", "dev", "proc", "tmp", "toolchain"];

/// Links that maintainer scripts would have made, each where its target is there and the name is free.
const ALTERNATIVES: [(&str, &str); 2] = [("usr/bin/awk", "mawk"), ("usr/bin/cc", "gcc")];

/// An unpacked root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRoot {
    /// What it was made from; this and not the path enters an action's digest.
    pub key: Digest,
    /// Where it is on this machine.
    pub path: PathBuf,
}

impl SandboxRoot {
    /// The root of these packages, which are in the store. It is unpacked once.
    pub fn unpack(store: &Store, packages: &[Digest]) -> Result<SandboxRoot> {
        let key = SandboxRoot::key(packages);
        let path = store.tree(&key, |directory| fill(store, packages, directory))?;
        Ok(SandboxRoot { key, path })
    }

    /// What stands for the root of these packages, in this order.
    pub fn key(packages: &[Digest]) -> Digest {
        let mut key = Hasher::new(io::sink());
        let text = packages.iter().fold(LAYOUT.to_owned(), |text, package| text + "\n" + &package.hex());
        key.write_all(text.as_bytes()).expect("hashing does not fail");
        key.digest()
    }
}

fn fill(store: &Store, packages: &[Digest], directory: &Path) -> Result<()> {
    let root = Root::open(directory)?;
    root.merge_usr()?;
    for package in packages {
        let path = store.path(package)?;
        root.unpack(&path).map_err(|error| unpack_error(error, package, directory))?;
    }
    root.finish()
}

fn unpack_error(error: io::Error, package: &Digest, directory: &Path) -> Error {
    let result: Result<()> = Err(error).at("unpack a package into", directory);
    result.expect_err("it is an error").cause(format!("the package is `{package}`"))
}

/// A directory that packages are unpacked into. Every path is resolved by the kernel as if that directory were `/`
/// (openat2(2), `RESOLVE_IN_ROOT`), so no name and no link in a package leads out of it.
struct Root {
    directory: OwnedFd,
    path: PathBuf,
}

impl Root {
    fn open(path: &Path) -> Result<Root> {
        let directory = File::open(path).at("open", path)?.into();
        Ok(Root { directory, path: path.to_owned() })
    }

    fn merge_usr(&self) -> Result<()> {
        fs::create_dir(self.path.join("usr")).at("make directories in", &self.path)?;
        for name in MERGED {
            fs::create_dir(self.path.join("usr").join(name)).at("make directories in", &self.path)?;
            std::os::unix::fs::symlink(format!("usr/{name}"), self.path.join(name)).at("make links in", &self.path)?;
        }
        Ok(())
    }

    fn unpack(&self, package: &Path) -> io::Result<()> {
        let mut archive = tar::Archive::new(deb::data(File::open(package)?)?);
        for entry in archive.entries()? {
            self.write(entry?)?;
        }
        Ok(())
    }

    fn write(&self, mut entry: tar::Entry<'_, impl Read>) -> io::Result<()> {
        let path = plain(&entry.path()?)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(()); // The root itself.
        };
        let parent = self.directory(parent)?;
        let link = entry.link_name()?.map(|link| link.into_owned());
        match entry.header().entry_type() {
            EntryType::Directory => self.directory(&path).map(|_| ()),
            EntryType::Symlink => {
                let target = link.ok_or_else(|| invalid("a link without a target"))?;
                replace(&parent, name.as_ref())?;
                Ok(rustix::fs::symlinkat(target, &parent, name)?)
            }
            EntryType::Link => {
                let target = plain(&link.ok_or_else(|| invalid("a link without a target"))?)?;
                let (Some(target_parent), Some(target_name)) = (target.parent(), target.file_name()) else {
                    return Err(invalid("a link to the root"));
                };
                replace(&parent, name.as_ref())?;
                Ok(rustix::fs::linkat(self.directory(target_parent)?, target_name, &parent, name, AtFlags::empty())?)
            }
            EntryType::Regular | EntryType::Continuous => {
                replace(&parent, name.as_ref())?;
                write_file(&parent, name.as_ref(), &mut entry)
            }
            other => Err(invalid(&format!("`{}` is of the type {other:?}, which no package should hold", path.display()))),
        }
    }

    /// Opens a directory, which is made if it is not there, with all above it.
    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let open = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
        };
        match open() {
            Err(rustix::io::Errno::NOENT) => {
                let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().ok_or(rustix::io::Errno::NOENT)?);
                rustix::fs::mkdirat(self.directory(parent)?, name, Mode::from_raw_mode(0o755))?;
                Ok(open()?)
            }
            other => Ok(other?),
        }
    }

    /// What maintainer scripts would have done, and what the sandbox needs.
    fn finish(&self) -> Result<()> {
        for name in MOUNT_POINTS {
            self.directory(Path::new(name)).at("make directories in", &self.path)?;
        }
        for (link, target) in ALTERNATIVES {
            let link = self.path.join(link);
            let is_free = fs::symlink_metadata(&link).is_err();
            if is_free && link.with_file_name(target).exists() {
                std::os::unix::fs::symlink(target, &link).at("make links in", &self.path)?;
            }
        }
        self.directory(Path::new("etc")).at("make directories in", &self.path)?;
        let files = [("passwd", "root:x:0:0:root:/build/home:/bin/sh\n"), ("group", "root:x:0:\n")];
        files.iter().try_for_each(|(name, content)| {
            let path = self.path.join("etc").join(name);
            fs::write(&path, content).at("write", &path)
        })
    }
}

/// Writes a file with its mode, without setuid and its like, and its time.
fn write_file(parent: &OwnedFd, name: &Path, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<()> {
    let mode = if entry.header().mode()? & 0o100 == 0 { 0o644 } else { 0o755 };
    let time = Timespec { tv_sec: i64::try_from(entry.header().mtime()?).unwrap_or(0), tv_nsec: 0 };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(mode))?);
    io::copy(entry, &mut file)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?)
}

/// Takes away what has the name, unless it is a directory: a later package's file stands, as with dpkg.
fn replace(parent: &OwnedFd, name: &Path) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A path as packages write it (`./usr/bin/gcc`), relative and without `.`; one with `..` is refused.
fn plain(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(invalid(&format!("the path `{}` leads out of the package", path.display()))),
        }
    }
    Ok(plain)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
