//! One entry of an initramfs. All belong to root and have no timestamps.

use std::borrow::Cow;

use super::Error;

/// A path, its permissions and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The absolute path on the node.
    pub path: String,
    /// The twelve permission bits.
    pub mode: u32,
    /// Its type and contents.
    pub kind: Kind<'a>,
}

/// The type and contents of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A directory.
    Directory,
    /// A regular file with these bytes.
    File(Cow<'a, [u8]>),
    /// A regular file of this many bytes, which the caller of [`super::write_with`] supplies while
    /// the archive is written. The reader never returns it.
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

    /// A regular file of `size` bytes that are too large for memory.
    pub fn sized(path: &str, mode: u32, size: u64) -> Self {
        Self { path: path.to_owned(), mode, kind: Kind::Sized(size) }
    }

    /// A symbolic link. Its permissions, which Linux ignores, are 0777.
    pub fn symlink(path: &str, to: &str) -> Self {
        Self { path: path.to_owned(), mode: 0o777, kind: Kind::Symlink(to.to_owned()) }
    }

    /// A character device.
    pub fn char_device(path: &str, mode: u32, major: u32, minor: u32) -> Self {
        Self { path: path.to_owned(), mode, kind: Kind::CharDevice { major, minor } }
    }

    /// The path of the parent folder; empty for an entry in `/`.
    pub(super) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Refuses an entry that the format cannot hold or that would read back differently.
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

    /// Bytes of the entry's data in the archive.
    pub(super) fn size(&self) -> u64 {
        if let Kind::Sized(size) = self.kind { size } else { self.data().len() as u64 }
    }

    /// The entry's data in the archive; empty for [`Kind::Sized`].
    pub(super) fn data(&self) -> &[u8] {
        match &self.kind {
            Kind::File(bytes) => bytes,
            Kind::Symlink(to) => to.as_bytes(),
            Kind::Directory | Kind::CharDevice { .. } | Kind::Sized(_) => &[],
        }
    }
}
