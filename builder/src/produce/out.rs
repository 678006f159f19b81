//! The output folder of a recipe, `out/<recipe>/`: the files that a build leaves, and a stamp that
//! shows whether they are unchanged since.

use crate::engine::digest::Digest;
use crate::engine::executor::Steps;
use crate::engine::fs_error::{self, IoContext};
use crate::engine::key::Key;
use crate::engine::store::{Lock, Store};
use crate::error::Result;
use crate::report::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The disk image.
pub const IMAGE: &str = "image.raw";
/// The copy of the image that is compressed with zstd.
pub const IMAGE_ZST: &str = "image.raw.zst";
/// The copy of the image in QEMU's format qcow2.
pub const IMAGE_QCOW2: &str = "image.qcow2";
/// The UKI.
pub const UKI: &str = "node.efi";
/// The program that the firmware starts. It is only in the image, and is signed like the UKI.
pub const BOOT: &str = "slotboot.efi";
/// The initramfs.
pub const INITRAMFS: &str = "initramfs.cpio";
/// The signature of the initramfs, for firmware that fetches it on its own.
pub const INITRAMFS_SIGNATURE: &str = "initramfs.cpio.sig";
/// The folder with the digests to sign of an unsigned build.
pub const TO_SIGN: &str = "to-sign";
/// The folder with the messages to sign of a release.
pub const RELEASE_TO_SIGN: &str = "release-to-sign";
/// The folder with the SBOM, provenance, lock and sources of the last release, outside its
/// repository.
pub const RELEASED: &str = "released";
/// The folder with an image that was rebuilt for comparison.
pub const REBUILT: &str = "rebuilt";
/// The folder with programs for the build machine.
pub const PROGRAMS: &str = "bin";
/// The plan, as `osbuild plan` prints it.
pub const PLAN: &str = "plan.toml";

/// The stamp of the last build.
const STAMP: &str = ".stamp.json";

/// The files of a build. No other build changes them before this is dropped.
pub struct Built {
    /// The folder that has them.
    pub out: Out,
    /// The disk image.
    pub image: PathBuf,
    /// The UKI.
    pub uki: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// The signature of the initramfs; `None` for an unsigned build.
    pub initramfs_signature: Option<PathBuf>,
    /// The folder with the digests to sign; `None` for a signed build.
    pub to_sign: Option<PathBuf>,
    /// Whether the files of an earlier build were current.
    pub was_current: bool,
    /// Which steps ran, and which results came from the store.
    pub steps: Steps,
    _lock: Lock,
}

/// The output folder of one recipe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Out {
    folder: PathBuf,
    /// The text of [`PLAN`] for the next build; `None` leaves the file as it is.
    plan: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Stamp {
    key: String,
    /// The identifier of the boot in which the files were written. They are not flushed to the
    /// disk, so after a power cut a file can have the right metadata and other bytes.
    boot: String,
    files: BTreeMap<String, Seen>,
}

/// The kernel's identifier of this boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

fn boot() -> Result<String> {
    Ok(fs::read_to_string(BOOT_ID).at("read", Path::new(BOOT_ID))?.trim().to_owned())
}

/// The stamp of a copy of the image.
fn stamp_of(name: &str) -> String {
    format!(".stamp-{name}.json")
}

/// The metadata of a file when it was written. Every change to the file changes one of these, also
/// one that restores the time of modification: only the kernel sets the time of change (stat(2)).
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
    /// The folder cannot be made or written. Checking this first avoids builds that fail after
    /// hours.
    pub fn open(root: &Path, recipe: &str) -> Result<Self> {
        let folder = root.join("out").join(recipe);
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).at("write to", &folder)?;
        for folder in [&folder, &logs] {
            rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).at("write to", folder)?;
        }
        Ok(Out { folder, plan: None })
    }

    /// The folder for a build with this plan, as [`PLAN`] has it.
    pub fn with_plan(self, text: String) -> Self {
        Out { plan: Some(text), ..self }
    }

    /// Writes the plan. A build does so while it holds the lock, before it replaces the products:
    /// those beside the plan of an interrupted build may be of an earlier one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write_plan(&self) -> Result<()> {
        let Some(text) = &self.plan else { return Ok(()) };
        fs::write(self.path(PLAN), text).at("write", &self.path(PLAN))
    }

    /// The files of a build of an image, which keep the lock of the folder.
    pub fn built(&self, signed: bool, was_current: bool, steps: Steps, lock: Lock) -> Built {
        Built {
            out: self.clone(),
            image: self.path(IMAGE),
            uki: self.path(UKI),
            initramfs: self.path(INITRAMFS),
            initramfs_signature: signed.then(|| self.path(INITRAMFS_SIGNATURE)),
            to_sign: (!signed).then(|| self.path(TO_SIGN)),
            was_current,
            steps,
            _lock: lock,
        }
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder of the steps' logs.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Puts a program into [`PROGRAMS`] and returns its path. The old file is replaced, not
    /// overwritten, so that a running copy is not affected.
    ///
    /// # Errors
    /// The store does not have the program, or the folder cannot be written.
    pub fn program(&self, store: &Store, file: &str, program: &Digest) -> Result<PathBuf> {
        let folder = self.path(PROGRAMS);
        fs::create_dir_all(&folder).at("write to", &folder)?;
        let path = folder.join(file);
        if Digest::of_file(&path).is_ok_and(|there| there == *program) {
            return Ok(path);
        }
        let fresh = folder.join(format!(".{file}"));
        // An interrupted build leaves it.
        fs_error::remove(&fresh)?;
        store.copy_to(program, &fresh, 0o755)?;
        fs::rename(&fresh, &path).at("write", &path)?;
        Ok(path)
    }

    /// Removes the programs of earlier builds that are not among these `files`.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn keep_programs(&self, files: &[PathBuf]) -> Result<()> {
        let folder = self.path(PROGRAMS);
        for entry in fs::read_dir(&folder).at("read", &folder)? {
            let path = entry.at("read", &folder)?.path();
            if !files.contains(&path) {
                fs_error::remove(&path)?;
            }
        }
        Ok(())
    }

    /// Waits until no other command writes here or reads what it has built. Others wait until the
    /// lock is dropped.
    ///
    /// # Errors
    /// The user wants to stop, or the store cannot be written.
    pub fn lock(&self, store: &Store, report: &Report) -> Result<Lock> {
        let name = format!("out-{}", Digest::of(self.folder.as_os_str().as_bytes()));
        let mut is_first = true;
        store.lock(&name, || {
            if std::mem::take(&mut is_first) {
                let folder = self.folder.display();
                report.note(format!("waiting for another command that uses `{folder}`"));
            }
            Ok(())
        })
    }

    /// Whether the last build had the same `key` and all of its files are unchanged.
    pub fn is_current(&self, key: &Key) -> bool {
        self.is_unchanged(STAMP, key)
    }

    /// Whether the copy `name` of the image was made under `key`, and image and copy are unchanged.
    pub fn copy_is_current(&self, name: &str, key: &Key) -> bool {
        self.is_unchanged(&stamp_of(name), key)
    }

    /// Stamps `name` as a copy of the image.
    pub fn finish_copy(&self, name: &str, key: &Key) -> Result<()> {
        self.stamp(&stamp_of(name), key, &[self.path(IMAGE), self.path(name)])
    }

    fn is_unchanged(&self, stamp: &str, key: &Key) -> bool {
        let stamp = fs::read(self.path(stamp))
            .ok()
            .and_then(|text| serde_json::from_slice::<Stamp>(&text).ok());
        stamp.is_some_and(|stamp| {
            let unchanged =
                |(name, seen): (&String, &Seen)| self.seen(name).is_ok_and(|now| now == *seen);
            stamp.key == key.digest().hex()
                && boot().is_ok_and(|boot| boot == stamp.boot)
                && stamp.files.iter().all(unchanged)
        })
    }

    /// Removes the stamp of the last build, so that the next one makes everything again.
    pub fn forget(&self) -> Result<()> {
        fs_error::remove(&self.path(STAMP))
    }

    /// Removes the stamp of the last build, so that an interrupted build leaves none, and the
    /// copies of the image that this build replaces. The folder must be locked.
    pub fn begin(&self) -> Result<()> {
        self.forget()?;
        [IMAGE_ZST, IMAGE_QCOW2].into_iter().try_for_each(|copy| {
            fs_error::remove(&self.path(&stamp_of(copy)))?;
            fs_error::remove(&self.path(copy))
        })
    }

    /// Stamps the files of this build, all of them in this folder.
    pub fn finish(&self, key: &Key, files: &[PathBuf]) -> Result<()> {
        self.stamp(STAMP, key, files)
    }

    fn stamp(&self, stamp: &str, key: &Key, files: &[PathBuf]) -> Result<()> {
        let name =
            |path: &PathBuf| path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        let files = files
            .iter()
            .map(|path| Ok((name(path), self.seen(&name(path))?)))
            .collect::<Result<_>>()?;
        let stamped = Stamp { key: key.digest().hex(), boot: boot()?, files };
        let text = serde_json::to_vec(&stamped).expect("a stamp always serializes");
        fs::write(self.path(stamp), text).at("write to", &self.folder)
    }

    fn seen(&self, name: &str) -> Result<Seen> {
        let about = fs::metadata(self.path(name)).at("read", &self.path(name))?;
        Ok(Seen {
            size: about.size(),
            inode: about.ino(),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_is_written_again_after_an_interrupted_build() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let out = Out::open(folder.path(), "tools").unwrap();
        let program = store.put_bytes(b"a program").unwrap();
        // The owner could write to a file that an earlier build left, if the test runs as root.
        fs::create_dir_all(out.path("bin/.etcd/folder")).unwrap();
        let path = out.program(&store, "etcd", &program).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a program");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!out.path("bin/.etcd").exists());
        fs::write(out.path("bin/renamed"), "of an earlier build").unwrap();
        out.keep_programs(std::slice::from_ref(&path)).unwrap();
        assert!(path.exists() && !out.path("bin/renamed").exists());
    }

    #[test]
    fn a_change_that_keeps_the_time_of_modification_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let out = Out::open(folder.path(), "node").unwrap();
        let (key, image) = (Key::new("build"), out.path(IMAGE));
        fs::write(&image, "as built").unwrap();
        out.finish(&key, std::slice::from_ref(&image)).unwrap();
        assert!(out.is_current(&key));
        let stamp = fs::read_to_string(out.path(STAMP)).unwrap();
        fs::write(out.path(STAMP), stamp.replace(&boot().unwrap(), "an earlier boot")).unwrap();
        assert!(!out.is_current(&key), "a power cut may have changed the file");
        fs::write(out.path(STAMP), stamp).unwrap();
        let built = fs::metadata(&image).unwrap().modified().unwrap();
        // The times of files advance with the kernel's ticks.
        std::thread::sleep(std::time::Duration::from_millis(50));
        fs::write(&image, "changed!").unwrap();
        fs::File::options().write(true).open(&image).unwrap().set_modified(built).unwrap();
        assert!(!out.is_current(&key));
    }
}
