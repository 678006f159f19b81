//! `out/<recipe>/`: what a build leaves for people, and whether it is still what the last build
//! left.

use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::engine::store::{Lock, Store};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names of what a build leaves.
pub const IMAGE: &str = "image.raw";
/// The UKI.
pub const UKI: &str = "node.efi";
/// What the firmware starts: it is in the image alone, and has to be signed like the others.
pub const BOOT: &str = "slotboot.efi";
/// The initramfs.
pub const INITRAMFS: &str = "initramfs.cpio";
/// The signature of the initramfs, for who fetches it by itself.
pub const INITRAMFS_SIGNATURE: &str = "initramfs.cpio.sig";
/// The folder with what has to be signed, when nobody did.
pub const TO_SIGN: &str = "to-sign";
/// The folder with what has to be signed of a release.
pub const RELEASE_TO_SIGN: &str = "release-to-sign";
/// The folder with what says of the last release what it is made of, for who does not look into its
/// repository.
pub const RELEASED: &str = "released";
/// The folder with what was built again to be compared.
pub const REBUILT: &str = "rebuilt";
/// The folder with programs for the machine that builds.
pub const PROGRAMS: &str = "bin";
/// The plan, as `osbuild plan` prints it.
pub const PLAN: &str = "plan.toml";

/// The note of what was left.
const STAMP: &str = ".stamp.json";

/// The output folder of one recipe.
#[derive(Clone, Debug)]
pub struct Out {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stamp {
    key: String,
    files: BTreeMap<String, Seen>,
}

/// The note of a copy of the image.
fn stamp_of(name: &str) -> String {
    format!(".stamp-{name}.json")
}

/// What a file looked like when it was written: a change to it changes one of these.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    size: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Out {
    /// Makes `out/<recipe>/` below `root`.
    ///
    /// # Errors
    /// The folder cannot be made or written to, which is told before hours are spent.
    pub fn open(root: &Path, recipe: &str) -> Result<Self> {
        let folder = root.join("out").join(recipe);
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).at("write to", &folder)?;
        for folder in [&folder, &logs] {
            rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).at("write to", folder)?;
        }
        Ok(Out { folder })
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder of the steps' logs.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Puts a program into [`PROGRAMS`], where one that runs stays as it was, and gives its path.
    ///
    /// # Errors
    /// The store does not have it, or the folder cannot be written to.
    pub fn program(&self, store: &Store, file: &str, program: &Digest) -> Result<PathBuf> {
        let folder = self.path(PROGRAMS);
        fs::create_dir_all(&folder).at("write to", &folder)?;
        let path = folder.join(file);
        if Digest::of_file(&path).is_ok_and(|there| there == *program) {
            return Ok(path);
        }
        let fresh = folder.join(format!(".{file}"));
        fs::copy(store.path(program)?, &fresh).at("write", &fresh)?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o755)).at("write", &fresh)?;
        fs::rename(&fresh, &path).at("write", &path)?;
        Ok(path)
    }

    /// Waits until no other build writes here, and keeps it so.
    pub fn lock(&self, store: &Store) -> Result<Lock> {
        store.lock(&format!("out-{}", Digest::of(self.folder.as_os_str().as_bytes())), || Ok(()))
    }

    /// Whether the last build had the same `key` and all it left is untouched.
    pub fn is_current(&self, key: &Digest) -> bool {
        self.is_untouched(STAMP, key)
    }

    /// Whether a copy of the image is one of the image that is there now, made by the program that
    /// `key` names.
    pub fn copy_is_current(&self, name: &str, key: &Digest) -> bool {
        self.is_untouched(&stamp_of(name), key)
    }

    /// Notes that `name` is a copy of the image.
    pub fn finish_copy(&self, name: &str, key: &Digest) -> Result<()> {
        self.note(&stamp_of(name), key, &[self.path(IMAGE), self.path(name)])
    }

    fn is_untouched(&self, stamp: &str, key: &Digest) -> bool {
        let stamp = fs::read(self.path(stamp))
            .ok()
            .and_then(|text| serde_json::from_slice::<Stamp>(&text).ok());
        stamp.is_some_and(|stamp| {
            let untouched =
                |(name, seen): (&String, &Seen)| self.seen(name).is_ok_and(|now| now == *seen);
            stamp.key == key.hex() && stamp.files.iter().all(untouched)
        })
    }

    /// Forgets what the last build left: a build that is cut off leaves no note behind.
    pub fn begin(&self) -> Result<()> {
        match fs::remove_file(self.path(STAMP)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).at("write to", &self.folder)
            }
            _ => Ok(()),
        }
    }

    /// Notes what this build left: these files, all of them in here.
    pub fn finish(&self, key: &Digest, files: &[PathBuf]) -> Result<()> {
        self.note(STAMP, key, files)
    }

    fn note(&self, stamp: &str, key: &Digest, files: &[PathBuf]) -> Result<()> {
        let name =
            |path: &PathBuf| path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        let files = files
            .iter()
            .map(|path| Ok((name(path), self.seen(&name(path))?)))
            .collect::<Result<_>>()?;
        let text = serde_json::to_vec(&Stamp { key: key.hex(), files })
            .expect("a stamp always serializes");
        fs::write(self.path(stamp), text).at("write to", &self.folder)
    }

    fn seen(&self, name: &str) -> Result<Seen> {
        let about = fs::metadata(self.path(name)).at("read", &self.path(name))?;
        Ok(Seen {
            size: about.size(),
            inode: about.ino(),
            changed: (about.mtime(), about.mtime_nsec()),
        })
    }
}
