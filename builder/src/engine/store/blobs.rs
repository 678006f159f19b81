//! Bytes by their digest: every read checks them, and damaged ones are moved away.

use super::{Store, note_use};
use crate::engine::digest::{CHUNK, Digest, Hasher, parse_hash};
use crate::engine::fs_error::{self, IoContext};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// The inode and the time of change of a file, in seconds and nanoseconds.
pub(super) type Version = (u64, i64, i64);

impl Store {
    /// Puts bytes, and returns their digest.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of(bytes);
        if !self.contains(&digest) {
            let mut incoming = self.incoming()?;
            incoming.write_all(bytes).at("write", incoming.path())?;
            incoming.finish()?;
        }
        Ok(digest)
    }

    /// Puts a copy of a file, and returns its digest.
    ///
    /// # Errors
    /// The file cannot be read, or the store cannot be written.
    pub fn put_file(&self, path: &Path) -> Result<Digest> {
        let mut file = File::open(path).at("read", path)?;
        let mut incoming = self.incoming()?;
        pump(&mut file, &mut incoming).or_else(|side| side.at(path, self.root()))?;
        incoming.finish()
    }

    /// Puts a file by moving it. It must be in a [`Scratch`](super::Scratch) of this store, and
    /// nothing else may use it.
    ///
    /// # Errors
    /// The file cannot be read, or the store cannot be written.
    pub fn adopt(&self, path: &Path) -> Result<Digest> {
        let digest = Digest::of_file(path)?;
        self.place(path, &digest)?;
        Ok(digest)
    }

    /// Removes bytes that can be made again from other entries of the store.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove(&self, digest: &Digest) -> Result<()> {
        fs_error::remove(&self.blob(digest))
    }

    /// Starts to put bytes that come in pieces.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn incoming(&self) -> Result<Incoming> {
        let path = self.inner.session.fresh("incoming");
        let file = File::create_new(&path).at("write", &path)?;
        Ok(Incoming { store: self.clone(), path, file: Hasher::new(file), placed: false })
    }

    /// Whether the store has a file with this hash and size.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.look(digest.hash()).is_some_and(|size| size == digest.size())
    }

    /// The digest of stored bytes by their SHA-256 in hexadecimal.
    pub fn find(&self, hash: &str) -> Option<Digest> {
        let hash = parse_hash(hash)?;
        Some(Digest::new(hash, self.look(&hash)?))
    }

    /// The bytes, checked.
    ///
    /// # Errors
    /// They are gone or damaged: [`Store::healing`] repairs that.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>> {
        let bytes = match fs::read(self.blob(digest)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.missing(digest));
            }
            Err(error) if is_unreadable(&error) => return Err(self.move_away(digest)),
            other => other.at("read", &self.blob(digest))?,
        };
        if Digest::of(&bytes) == *digest { Ok(bytes) } else { Err(self.move_away(digest)) }
    }

    /// The path of the read-only file with these bytes, checked. The file must not be changed:
    /// [`Store::copy_to`] makes a copy. It is hashed once per process, and again after a change.
    ///
    /// # Errors
    /// As of [`Store::read`].
    pub fn path(&self, digest: &Digest) -> Result<PathBuf> {
        let path = self.blob(digest);
        let file = self.open_blob(digest)?;
        let metadata = file.metadata().at("read", &path)?;
        let seen: Version = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        if self.checked().get(digest) != Some(&seen) {
            match Digest::of_whole(&file) {
                Ok(found) if found == *digest => {}
                Err(error) if !is_unreadable(&error) => return Err(error).at("read", &path),
                _ => return Err(self.move_away(digest)),
            }
            self.checked().insert(*digest, seen);
        }
        Ok(path)
    }

    /// Writes the bytes into a new file with these permission bits, and checks them on the way.
    ///
    /// # Errors
    /// As of [`Store::read`], or the file exists or cannot be written.
    pub fn copy_to(&self, digest: &Digest, target: &Path, mode: u32) -> Result<()> {
        let mut file = File::create_new(target).at("write", target)?;
        self.write_to(digest, &mut file, target)?;
        file.set_permissions(Permissions::from_mode(mode)).at("write", target)
    }

    /// Writes the bytes to `out`, which errors call `target`, and checks them on the way.
    ///
    /// # Errors
    /// As of [`Store::read`], or `out` cannot be written.
    pub fn write_to(&self, digest: &Digest, out: impl Write, target: &Path) -> Result<()> {
        let mut hashed = Hasher::new(out);
        match pump(&mut self.open_blob(digest)?, &mut hashed) {
            Ok(()) => {}
            Err(Side::From(error)) if is_unreadable(&error) => return Err(self.move_away(digest)),
            Err(side) => return side.at(&self.blob(digest), target),
        }
        if hashed.digest() == *digest { Ok(()) } else { Err(self.move_away(digest)) }
    }

    fn open_blob(&self, digest: &Digest) -> Result<File> {
        let path = self.blob(digest);
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.missing(digest)),
            other => other.at("read", &path),
        }
    }

    fn missing(&self, digest: &Digest) -> Error {
        self.inner.damaged.fetch_add(1, Ordering::Relaxed);
        Error::digest(format!("`{digest}` is gone from the store"))
            .hint("run the same command again: the step that made it runs again")
    }

    fn move_away(&self, digest: &Digest) -> Error {
        self.inner.damaged.fetch_add(1, Ordering::Relaxed);
        let away = self.root().join("damaged").join(digest.hex());
        let moved = fs::rename(self.blob(digest), &away).at("move away", &self.blob(digest));
        let error = Error::digest(format!("the stored copy of `{digest}` is damaged"));
        match moved {
            Ok(()) => error
                .cause(format!("it is now `{}`", away.display()))
                .hint("run the same command again: the step that made it runs again"),
            Err(failure) => error.cause(&failure.problems[0].message),
        }
    }

    /// The size of stored bytes. It counts as a use of them.
    fn look(&self, hash: &[u8; 32]) -> Option<u64> {
        let path = self.blob(&Digest::new(*hash, 0));
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        note_use(&path, &metadata).then_some(metadata.len())
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.root().join("cas/sha256").join(&hex[..2]).join(hex)
    }

    fn place(&self, file: &Path, digest: &Digest) -> Result<()> {
        fs::set_permissions(file, Permissions::from_mode(0o444)).at("write", file)?;
        let path = self.blob(digest);
        match fs::rename(file, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = path.parent().expect("a blob is in a directory");
                fs::create_dir_all(directory).at("make the directory", directory)?;
                fs::rename(file, &path).at("write", &path)
            }
            other => other.at("write", &path),
        }
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<Digest, Version>> {
        self.inner.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are being put. Dropping them unfinished removes them.
pub struct Incoming {
    store: Store,
    path: PathBuf,
    file: Hasher<File>,
    placed: bool,
}

impl Incoming {
    /// The digest of the bytes so far.
    pub fn digest(&self) -> Digest {
        self.file.digest()
    }

    /// Makes the bytes part of the store, and returns their digest.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn finish(mut self) -> Result<Digest> {
        let digest = self.file.digest();
        self.store.place(&self.path, &digest)?;
        self.placed = true;
        Ok(digest)
    }

    /// The unfinished file, for errors.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for Incoming {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.placed {
            // If this fails, the file goes with the session's directory.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The error of a copy, by the side that failed.
enum Side {
    From(io::Error),
    To(io::Error),
}

impl Side {
    fn at(self, from: &Path, to: &Path) -> Result<()> {
        match self {
            Side::From(error) => Err(error).at("read", from),
            Side::To(error) => Err(error).at("write", to),
        }
    }
}

/// Copies all of `from` to `to`.
fn pump(from: &mut impl Read, to: &mut impl Write) -> std::result::Result<(), Side> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk).map_err(Side::From)? {
            0 => return Ok(()),
            read => to.write_all(&chunk[..read]).map_err(Side::To)?,
        }
    }
}

/// Whether the disk cannot read the bytes. They count as damaged.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
