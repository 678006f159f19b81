//! The root of the sandbox: Debian packages, unpacked without dpkg and without their maintainer
//! scripts.

use super::action::SandboxRoot;
use super::deb;
use super::digest::{Digest, Hasher};
use super::fs_error::IoContext;
use super::stop;
use super::store::Store;
use crate::error::{Error, Result};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// The version of the layout. Raise it when the same packages give another root.
const LAYOUT: &str = "sandbox root 2";

/// The directories that Debian merged into `/usr`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// The mount points of the sandbox.
const MOUNT_POINTS: [&str; 5] = ["build", "dev", "proc", "tmp", "toolchain"];

/// The mode of each directory, under every umask.
const DIRECTORY: Mode = Mode::from_raw_mode(0o755);

/// The folder of [`ALTERNATIVES`].
const BINARIES: &str = "usr/bin";

/// Links that maintainer scripts would make, with their targets. Each is made if its target exists
/// and its name is free.
const ALTERNATIVES: [(&str, &str); 3] = [("awk", "mawk"), ("cc", "gcc"), ("sh", "bash")];

impl SandboxRoot {
    /// The root of these packages, which need be neither in the store nor unpacked.
    pub fn of(store: &Store, packages: &[Digest]) -> SandboxRoot {
        let key = SandboxRoot::key(packages);
        SandboxRoot { key, path: store.tree_root(&key) }
    }

    /// The root of these packages, which are in the store. It is unpacked once.
    ///
    /// # Errors
    /// A package is missing or malformed, or the store cannot be written.
    pub fn unpack(store: &Store, packages: &[Digest]) -> Result<SandboxRoot> {
        let root = SandboxRoot::of(store, packages);
        store.tree(&root.key, |directory| fill(store, packages, directory))?;
        Ok(root)
    }

    /// The key of the root of these packages, in this order.
    pub fn key(packages: &[Digest]) -> Digest {
        let mut key = Hasher::new(io::sink());
        let text =
            packages.iter().fold(LAYOUT.to_owned(), |text, package| text + "\n" + &package.hex());
        key.write_all(text.as_bytes()).expect("hashing does not fail");
        key.digest()
    }
}

fn fill(store: &Store, packages: &[Digest], directory: &Path) -> Result<()> {
    let root = Root::begin(directory).at("make directories in", directory)?;
    for package in packages {
        stop::check()?;
        let path = store.path(package)?;
        let file = File::open(&path).at("read", &path)?;
        root.unpack(file).map_err(|error| unpack_error(error, package, directory))?;
    }
    root.finish().at("make files in", directory)
}

fn unpack_error(error: io::Error, package: &Digest, directory: &Path) -> Error {
    let result: Result<()> = Err(error).at("unpack a package into", directory);
    result.expect_err("it is an error").cause(format!("the package is `{package}`"))
}

/// A directory that packages are unpacked into. Every path is resolved by the kernel as if that
/// directory were `/` (openat2(2), `RESOLVE_IN_ROOT`), so no name and no link in a package leads
/// out of it.
pub struct Root {
    directory: OwnedFd,
}

impl Root {
    /// Starts a root in an empty directory.
    pub fn begin(path: &Path) -> io::Result<Root> {
        let root = Root { directory: File::open(path)?.into() };
        for name in MERGED {
            root.directory(&Path::new("usr").join(name))?;
            rustix::fs::symlinkat(format!("usr/{name}"), &root.directory, name)?;
        }
        Ok(root)
    }

    /// Unpacks a package, the bytes of a `.deb` file.
    ///
    /// # Errors
    /// The package is malformed, or holds a device or a path with `..`.
    pub fn unpack(&self, package: impl Read + 'static) -> io::Result<()> {
        let mut archive = tar::Archive::new(deb::data(package)?);
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
                let (Some(target_parent), Some(target_name)) =
                    (target.parent(), target.file_name())
                else {
                    return Err(invalid("a link to the root"));
                };
                replace(&parent, name.as_ref())?;
                Ok(rustix::fs::linkat(
                    self.directory(target_parent)?,
                    target_name,
                    &parent,
                    name,
                    AtFlags::empty(),
                )?)
            }
            EntryType::Regular | EntryType::Continuous => {
                replace(&parent, name.as_ref())?;
                write_file(&parent, name.as_ref(), &mut entry)
            }
            other => Err(invalid(&format!(
                "`{}` is of the type {other:?}, which no package should contain",
                path.display()
            ))),
        }
    }

    /// Opens a directory, after making it and its parents where they are missing.
    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let open = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
        };
        match open() {
            Err(rustix::io::Errno::NOENT) => {
                let (parent, name) = (
                    path.parent().unwrap_or(Path::new("")),
                    path.file_name().ok_or(rustix::io::Errno::NOENT)?,
                );
                let parent = self.directory(parent)?;
                rustix::fs::mkdirat(&parent, name, DIRECTORY)?;
                rustix::fs::chmodat(&parent, name, DIRECTORY, AtFlags::empty())?;
                Ok(open()?)
            }
            other => Ok(other?),
        }
    }

    /// An unpacked root.
    pub fn of(path: &Path) -> io::Result<Root> {
        Ok(Root { directory: File::open(path)?.into() })
    }

    /// Opens a file, through links of the root.
    pub fn open(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let (mode, resolve) = (Mode::empty(), ResolveFlags::IN_ROOT);
        Ok(rustix::fs::openat2(&self.directory, path, flags, mode, resolve)?.into())
    }

    /// Adds mount points, and the files that maintainer scripts would make.
    pub fn finish(&self) -> io::Result<()> {
        for name in MOUNT_POINTS {
            self.directory(Path::new(name))?;
        }
        let binaries = self.directory(Path::new(BINARIES))?;
        for (link, target) in ALTERNATIVES {
            if self.has(&Path::new(BINARIES).join(target)) {
                match rustix::fs::symlinkat(target, &binaries, link) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let etc = self.directory(Path::new("etc"))?;
        for (name, content) in
            [("passwd", "root:x:0:0:root:/build/home:/bin/sh\n"), ("group", "root:x:0:\n")]
        {
            replace(&etc, name.as_ref())?;
            new_file(&etc, name.as_ref(), Mode::from_raw_mode(0o644))?
                .write_all(content.as_bytes())?;
        }
        Ok(())
    }

    fn has(&self, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
            .is_ok()
    }
}

/// Writes a file with its time and mode, except the setuid, setgid and sticky bits.
fn write_file(
    parent: &OwnedFd,
    name: &Path,
    entry: &mut tar::Entry<'_, impl Read>,
) -> io::Result<()> {
    let mode = if entry.header().mode()? & 0o100 == 0 { 0o644 } else { 0o755 };
    let time = Timespec { tv_sec: i64::try_from(entry.header().mtime()?).unwrap_or(0), tv_nsec: 0 };
    let mut file = new_file(parent, name, Mode::from_raw_mode(mode))?;
    io::copy(entry, &mut file)?;
    Ok(rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?)
}

/// Creates a file with this mode under every umask.
fn new_file(parent: &OwnedFd, name: &Path, mode: Mode) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, mode)?);
    rustix::fs::fchmod(&file, mode)?;
    Ok(file)
}

/// Removes a file of this name, but not a directory: the file of a later package wins, as in dpkg.
fn replace(parent: &OwnedFd, name: &Path) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Turns a path as packages write it (`./usr/bin/gcc`) into a relative one without `.`, and refuses
/// one with `..`.
fn plain(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => {
                return Err(invalid(&format!(
                    "the path `{}` leads out of the package",
                    path.display()
                )));
            }
        }
    }
    Ok(plain)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
