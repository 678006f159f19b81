//! One entry of an initramfs. All belong to root and have no times.

use std::borrow::Cow;

use super::Error;

/// A path, its permissions, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The absolute path on the node.
    pub path: String,
    /// The twelve permission bits.
    pub mode: u32,
    /// What stands there.
    pub kind: Kind<'a>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A directory.
    Directory,
    /// A regular file with these bytes.
    File(Cow<'a, [u8]>),
    /// A regular file of so many bytes, which whoever calls [`super::write_with`] gives when they
    /// are due. No reader gives one.
    Sized(u64),
    /// A symbolic link to this path.
    Symlink(String),
    /// A character device.
    CharDevice {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
}

impl<'a> Entry<'a> {
    /// A directory.
    pub fn directory(path: &str, mode: u32) -> Self {
        Self { path: path.to_owned(), mode, kind: Kind::Directory }
    }

    /// A regular file.
    pub fn file(path: &str, mode: u32, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { path: path.to_owned(), mode, kind: Kind::File(bytes.into()) }
    }

    /// A regular file of `size` bytes that are too many to be in memory.
    pub fn sized(path: &str, mode: u32, size: u64) -> Self {
        Self { path: path.to_owned(), mode, kind: Kind::Sized(size) }
    }

    /// A symbolic link. Its permissions, which nothing heeds, are 0777.
    pub fn symlink(path: &str, to: &str) -> Self {
        Self { path: path.to_owned(), mode: 0o777, kind: Kind::Symlink(to.to_owned()) }
    }

    /// A character device.
    pub fn char_device(path: &str, mode: u32, major: u32, minor: u32) -> Self {
        Self { path: path.to_owned(), mode, kind: Kind::CharDevice { major, minor } }
    }

    /// The path of the folder that holds this entry; empty for one that stands in `/`.
    pub(super) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Refuses what the format cannot hold, or holds so that it reads back as something else.
    pub(super) fn check(&self) -> Result<(), Error> {
        let names = self.path.strip_prefix('/').unwrap_or("");
        let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        // An entry of this name ends the archive.
        if !names.split('/').all(plain) || names == "TRAILER!!!" {
            return Err(Error::Path(self.path.clone()));
        }
        if self.mode > 0o7777 {
            return Err(Error::Mode(self.mode));
        }
        match &self.kind {
            Kind::Symlink(to) if to.is_empty() || to.contains('\0') => Err(Error::Path(to.clone())),
            _ if u32::try_from(self.size()).is_err() => Err(Error::TooLarge(self.path.clone())),
            _ => Ok(()),
        }
    }

    /// Bytes of what the archive stores as the entry's data.
    pub(super) fn size(&self) -> u64 {
        if let Kind::Sized(size) = self.kind { size } else { self.data().len() as u64 }
    }

    /// What the archive stores as the entry's data, as far as it is at hand.
    pub(super) fn data(&self) -> &[u8] {
        match &self.kind {
            Kind::File(bytes) => bytes,
            Kind::Symlink(to) => to.as_bytes(),
            Kind::Directory | Kind::CharDevice { .. } | Kind::Sized(_) => &[],
        }
    }
}
