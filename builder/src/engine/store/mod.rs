//! The store: bytes by digest, results by action, and trees unpacked once, shared by every build of
//! this user.
//!
//! Layout beneath the store's root (`$XDG_CACHE_HOME/osbuild`):
//!
//! | path | holds |
//! |---|---|
//! | `cas/sha256/ab/<hash>` | bytes by their digest, read-only |
//! | `ac/<hash>` | the result of an action by the action's digest |
//! | `memo/<kind>/<hash>` | the digest of what an in-process step made, by the digest of what it was made from |
//! | `trees/<hash>/{root,stamp}` | a directory that was unpacked once, and the digest of its content |
//! | `clients/<name>/` | what an ecosystem's client keeps for itself and can fetch or make again |
//! | `locks/` | one lock for each action, memo or tree that somebody makes, and for each processor that a build keeps to itself |
//! | `tmp/<session>/` | what a running build has not finished; swept by the next one when its build is gone |
//! | `damaged/` | what was found not to be what its name says |
//! | `collected` | its time says when the store was last brought below its limit |
//!
//! Everything appears under its name by a rename, whole. Nothing is flushed to the disk for that,
//! so a power cut may leave a file short or empty under a right name: so every read checks the
//! hash, every look at a result checks the sizes, and the small files of `ac` and `memo` carry a
//! hash of their own. What fails a check is moved away and made again. Trees are the exception:
//! nobody reads all of a tree to check it, so they are flushed before they get their name.

mod collect;
mod lock;
mod owner;
mod results;
mod session;
mod sources;
#[cfg(test)]
mod tests;
mod trees;

pub use collect::{Collect, Collected, Sizes};
pub use lock::Lock;
pub use session::Scratch;

use super::digest::{CHUNK, Digest, Hasher, parse_hash};
use super::fs_error::{self, IoContext};
use crate::error::{Error, Result};
use crate::report::Report;
use session::Session;
use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How often one build is begun again because something in the store turned out to be damaged.
const HEALINGS: usize = 5;

/// A use of a file is written into its time of modification, but not again within this time.
const USE_IS_NOTED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A handle on the store, cheap to clone and usable from several threads.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    session: Session,
    /// Files that this process has hashed, and the inode and time of change that they had then.
    checked: Mutex<HashMap<Digest, (u64, i64, i64)>>,
    /// How many damaged entries this process has moved away.
    damaged: AtomicUsize,
}

impl Store {
    /// Where the store is, from the values of `XDG_CACHE_HOME` and `HOME`. Empty or relative values
    /// count as unset.
    pub fn usual_root(cache_home: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let cache =
            cache_home.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".cache")));
        Ok(cache
            .ok_or_else(|| {
                let error = Error::usage("neither `XDG_CACHE_HOME` nor `HOME` is set");
                // Not a folder that everybody may write to: the store is refused there if somebody
                // was faster.
                error.hint("export HOME=\"$(getent passwd \"$(id -u)\" | cut -d: -f6)\"")
            })?
            .join("osbuild"))
    }

    /// Opens the store at `root`, makes it when it is not there, and sweeps away what killed builds
    /// left.
    ///
    /// # Errors
    /// It belongs to another user, or others may write to it: what they put there would end up in
    /// nodes. Or it cannot be written.
    pub fn open(root: PathBuf) -> Result<Store> {
        owner::make(&root)?;
        owner::check(&root)?;
        for directory in ["cas/sha256", "ac", "clients", "memo", "trees", "locks", "tmp", "damaged"]
        {
            let path = root.join(directory);
            fs::create_dir_all(&path).at("make the directory", &path)?;
        }
        let session = Session::begin(&root)?;
        Ok(Store {
            inner: Arc::new(Inner {
                root,
                session,
                checked: Mutex::default(),
                damaged: AtomicUsize::new(0),
            }),
        })
    }

    fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Puts bytes.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of(bytes);
        if !self.contains(&digest) {
            let mut incoming = self.incoming()?;
            incoming.write_all(bytes).at("write", incoming.path())?;
            incoming.finish()?;
        }
        Ok(digest)
    }

    /// Puts a copy of a file.
    pub fn put_file(&self, path: &Path) -> Result<Digest> {
        let mut file = File::open(path).at("read", path)?;
        let mut incoming = self.incoming()?;
        pump(&mut file, path, &mut incoming, self.root())?;
        incoming.finish()
    }

    /// Puts a file by moving it: it must be in a [`Scratch`] of this store, and be nobody else's.
    pub fn adopt(&self, path: &Path) -> Result<Digest> {
        let digest = Digest::of_file(path)?;
        self.place(path, &digest)?;
        Ok(digest)
    }

    /// Removes bytes that can be made of something else that the store has.
    pub fn remove(&self, digest: &Digest) -> Result<()> {
        fs_error::remove(&self.blob(digest))
    }

    /// Begins to put bytes that come in pieces.
    pub fn incoming(&self) -> Result<Incoming> {
        let path = self.inner.session.fresh("incoming");
        let file = File::create_new(&path).at("write", &path)?;
        Ok(Incoming { store: self.clone(), path, file: Hasher::new(file), placed: false })
    }

    /// Whether the bytes are there, by name and size.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.look(digest.hash()).is_some_and(|size| size == digest.size())
    }

    /// The whole digest of stored bytes of which only the hash is known, in hexadecimal.
    pub fn find(&self, hash: &str) -> Option<Digest> {
        let hash = parse_hash(hash)?;
        Some(Digest::new(hash, self.look(&hash)?))
    }

    /// The bytes, checked.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>> {
        let bytes = match fs::read(self.blob(digest)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.missing(digest));
            }
            other => other.at("read", &self.blob(digest))?,
        };
        if Digest::of(&bytes) == *digest { Ok(bytes) } else { Err(self.move_away(digest)) }
    }

    /// The path of the read-only file with these bytes, checked. It must not be changed:
    /// [`Store::copy_to`] makes a file to change. A file is hashed once a process, and again when
    /// it has changed since.
    pub fn path(&self, digest: &Digest) -> Result<PathBuf> {
        let path = self.blob(digest);
        let mut file = self.open_blob(digest)?;
        let metadata = file.metadata().at("read", &path)?;
        let seen = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        if self.checked().get(digest) != Some(&seen) {
            if Digest::of_reader(&mut file).at("read", &path)? != *digest {
                return Err(self.move_away(digest));
            }
            self.checked().insert(*digest, seen);
        }
        Ok(path)
    }

    /// Writes the bytes into a new file with these permission bits, checked on the way.
    pub fn copy_to(&self, digest: &Digest, target: &Path, mode: u32) -> Result<()> {
        let mut file = File::create_new(target).at("write", target)?;
        self.write_to(digest, &mut file, target)?;
        file.set_permissions(Permissions::from_mode(mode)).at("write", target)
    }

    /// Writes the bytes to `out`, which errors call `target`, checked on the way.
    pub fn write_to(&self, digest: &Digest, out: impl Write, target: &Path) -> Result<()> {
        let mut hashed = Hasher::new(out);
        pump(&mut self.open_blob(digest)?, &self.blob(digest), &mut hashed, target)?;
        if hashed.digest() == *digest { Ok(()) } else { Err(self.move_away(digest)) }
    }

    /// Runs a build, and begins it again when it failed because something in the store turned out
    /// to be damaged or gone: that is moved away by then, so the step that made it runs again and
    /// all others are found. `build` must make an executor of its own: the stop of one that failed
    /// stays set.
    pub fn healing<T>(&self, report: &Report, mut build: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..HEALINGS {
            let before = self.inner.damaged.load(Ordering::Relaxed);
            match build() {
                Err(error) if self.inner.damaged.load(Ordering::Relaxed) > before => {
                    report.warning(&error.problems[0].message)
                }
                other => return other,
            }
        }
        build()
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
            .hint("run the same command again: what made it runs again")
    }

    fn move_away(&self, digest: &Digest) -> Error {
        self.inner.damaged.fetch_add(1, Ordering::Relaxed);
        let away = self.root().join("damaged").join(digest.hex());
        let moved = fs::rename(self.blob(digest), &away).at("move away", &self.blob(digest));
        let error = Error::digest(format!("the stored copy of `{digest}` is damaged"));
        match moved {
            Ok(()) => error
                .cause(format!("it is now `{}`", away.display()))
                .hint("run the same command again: what made it runs again"),
            Err(failure) => error.cause(&failure.problems[0].message),
        }
    }

    /// The size of stored bytes, and a note that somebody wanted them.
    fn look(&self, hash: &[u8; 32]) -> Option<u64> {
        let path = self.blob(&Digest::new(*hash, 0));
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        note_use(&path, &metadata);
        Some(metadata.len())
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
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

    fn checked(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, (u64, i64, i64)>> {
        self.inner.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are being put. Dropping them unfinished leaves nothing.
pub struct Incoming {
    store: Store,
    path: PathBuf,
    file: Hasher<File>,
    placed: bool,
}

impl Incoming {
    /// The digest of what has come so far, for a look before [`Incoming::finish`].
    pub fn digest(&self) -> Digest {
        self.file.digest()
    }

    /// Makes the bytes part of the store.
    pub fn finish(mut self) -> Result<Digest> {
        let digest = self.file.digest();
        self.store.place(&self.path, &digest)?;
        self.placed = true;
        Ok(digest)
    }

    /// Where the bytes are now, to be named in an error.
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
            // It is in the session's directory: what cannot be removed now goes with that.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Copies all of `from` to `to`; the paths are for errors, which say which of the two sides failed.
fn pump(from: &mut impl Read, from_path: &Path, to: &mut impl Write, to_path: &Path) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk).at("read", from_path)? {
            0 => return Ok(()),
            read => to.write_all(&chunk[..read]).at("write", to_path)?,
        }
    }
}

/// Marks a file as used now, so that [`Store::collect`] keeps it.
fn note_use(path: &Path, metadata: &fs::Metadata) {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    if age.is_some_and(|age| age > USE_IS_NOTED_AFTER) {
        // A store that cannot be written still serves reads; its files merely look older than they
        // are.
        let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    }
}
