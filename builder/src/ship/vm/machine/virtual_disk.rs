//! The machine's disk: a temporary overlay, or a persistent copy.

use super::arguments::escaped;
use super::{absolute, text, tool};
use crate::error::{Context, Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The Debian package with `qemu-img`.
const PACKAGE: &str = "qemu-utils";

/// The file behind a virtual machine's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualDisk {
    path: PathBuf,
    format: Format,
    record: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// A raw disk image.
    Raw,
    /// A raw disk image that is deleted with its machine.
    RawOnce,
    /// A qcow2 file with the differences from a backing file, which is deleted with its machine.
    Overlay,
}

impl VirtualDisk {
    /// Uses an existing raw file.
    pub fn existing(path: PathBuf) -> Self {
        VirtualDisk { path, format: Format::Raw, record: None }
    }

    /// Makes the overlay `path` over `image`, which is not changed. `size_mib` is the size of the
    /// disk if it differs from that of the image.
    pub fn overlay(image: &Path, path: PathBuf, size_mib: Option<u64>) -> Result<Self> {
        check_size(image, size_mib)?;
        // qemu-img resolves a relative path from the overlay's folder.
        let image = text(&absolute(image)?)?;
        let mut arguments =
            ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", &image, &text(&path)?]
                .map(str::to_owned)
                .to_vec();
        arguments.extend(size_mib.map(|size| format!("{size}M")));
        tool("qemu-img", PACKAGE, &arguments)?;
        Ok(VirtualDisk { path, format: Format::Overlay, record: None })
    }

    /// Copies `image` to the raw file `path`, for changes before the machine starts. `size_mib` is
    /// the size of the disk if it differs from that of the image.
    pub fn copied(image: &Path, path: PathBuf, size_mib: Option<u64>) -> Result<Self> {
        check_size(image, size_mib)?;
        copy(image, &path)?;
        grow(&path, size_mib)?;
        Ok(VirtualDisk { path, format: Format::RawOnce, record: None })
    }

    /// Uses the raw file `path` from the last run, or copies `image` to it if it is missing. It
    /// grows to `size_mib`, and never shrinks. A file beside it records which image was copied. No
    /// other machine uses the disk until the returned lock is dropped.
    ///
    /// # Errors
    /// Another machine uses the disk, which is then unchanged.
    pub fn kept(
        image: &Path,
        path: PathBuf,
        size_mib: Option<u64>,
    ) -> Result<(Self, Arc<DiskLock>)> {
        check_size(image, size_mib)?;
        // Before the copy: two first runs would replace each other's.
        let lock = DiskLock::take(&path)?;
        if !path.exists() {
            let part = path.with_extension("part");
            make_private(&part)?;
            copy(image, &part)?;
            let note = origin_of(&path);
            std::fs::write(&note, identity(image)?)
                .or_build(|| format!("cannot write `{}`", note.display()))?;
            std::fs::rename(&part, &path)
                .or_build(|| format!("cannot rename `{}`", part.display()))?;
        }
        // An earlier release has made it for everybody to read.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))
            .or_build(|| format!("cannot change the mode of `{}`", path.display()))?;
        grow(&path, size_mib)?;
        Ok((VirtualDisk::existing(path), Arc::new(lock)))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the kept disk at `path` is a copy of another image than the current `image`, so that
    /// it lacks a later build.
    pub fn is_outdated(image: &Path, path: &Path) -> Result<bool> {
        let origin = std::fs::read_to_string(origin_of(path)).ok();
        Ok(path.exists() && origin != Some(identity(image)?))
    }

    /// Records every write and flush of the disk in the file `record`, in the format of Linux's
    /// dm-log-writes.
    pub fn recorded(self, record: PathBuf) -> Self {
        VirtualDisk { record: Some(record), ..self }
    }

    /// Whether the writes are recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// The part of QEMU's `-drive` that names the file.
    pub(super) fn drive(&self) -> Result<String> {
        let file = escaped(&text(&self.path)?);
        let (format, more) = match self.format {
            Format::Raw => ("raw", ""),
            // Its writes need not reach the host's disk.
            Format::RawOnce => ("raw", ",cache=unsafe"),
            Format::Overlay => ("qcow2", ",cache=unsafe"),
        };
        let Some(record) = &self.record else {
            return Ok(format!("format={format},discard=unmap,file={file}{more}"));
        };
        let record = escaped(&text(record)?);
        Ok(format!(
            "driver=blklogwrites,log-sector-size=512,log.driver=raw,log.file.driver=file,\
             log.file.filename={record},file.driver={format},file.discard=unmap,\
             file.file.driver=file,file.file.filename={file}{more}"
        ))
    }
}

/// Makes a file that its owner alone may read: a kept disk gets the keys of a cluster. `qemu-img`
/// writes into it.
fn make_private(path: &Path) -> Result<()> {
    let mode = Permissions::from_mode(0o600);
    let made = File::create(path).and_then(|file| file.set_permissions(mode));
    made.or_build(|| format!("cannot make `{}`", path.display()))
}

/// Copies an image. Its holes stay holes.
fn copy(image: &Path, path: &Path) -> Result<()> {
    let arguments = ["convert", "-q", "-f", "raw", "-O", "raw", &text(image)?, &text(path)?];
    tool("qemu-img", PACKAGE, &arguments.map(str::to_owned)).map(drop)
}

/// Makes a raw file larger. It never shrinks.
fn grow(path: &Path, size_mib: Option<u64>) -> Result<()> {
    let size = size_mib.map_or(0, |size| size << 20);
    if size > size_of(path)? {
        let grow = || File::options().write(true).open(path)?.set_len(size);
        grow().or_build(|| format!("cannot grow `{}`", path.display()))?;
    }
    Ok(())
}

/// The lock of a kept disk until it is dropped: two machines, or a machine and a change to the
/// file, would destroy its file systems. It is that of a file beside the disk, `disk.lock`, because
/// the disk may not exist yet, and the user may remove it to start over.
#[derive(Debug)]
pub struct DiskLock {
    _beside: File,
    /// The lock of the disk itself, if it exists: the one of versions of osbuild before
    /// `disk.lock`.
    _disk: Option<File>,
}

impl DiskLock {
    fn take(disk: &Path) -> Result<Self> {
        let path = disk.with_extension("lock");
        // NFS requires a file that is open for writing (flock(2)).
        let beside = File::options().create(true).append(true).open(&path);
        let beside = beside.or_build(|| format!("cannot open `{}`", path.display()))?;
        exclude(&beside, disk)?;
        let own = disk.exists().then(|| File::options().append(true).open(disk));
        let own = own.transpose().or_build(|| format!("cannot open `{}`", disk.display()))?;
        own.iter().try_for_each(|file| exclude(file, disk))?;
        Ok(DiskLock { _beside: beside, _disk: own })
    }
}

/// Locks a file, which stands for a kept disk.
fn exclude(file: &File, disk: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            Err(Error::usage(format!("another machine uses the disk `{}`", disk.display()))
                .hint("`--name NAME` gives this one a disk of its own"))
        }
        other => other.or_build(|| format!("cannot lock `{}`", disk.display())),
    }
}

/// The file that records the image of a kept disk.
fn origin_of(disk: &Path) -> PathBuf {
    disk.with_extension("origin")
}

/// Identifies a build of an image by size and time, without reading it.
fn identity(image: &Path) -> Result<String> {
    let about =
        std::fs::metadata(image).or_build(|| format!("cannot read `{}`", image.display()))?;
    Ok(format!("{} bytes, written at {}.{:09}\n", about.len(), about.mtime(), about.mtime_nsec()))
}

fn check_size(image: &Path, size_mib: Option<u64>) -> Result<()> {
    let size = size_of(image)?;
    match size_mib {
        Some(requested) if requested << 20 < size => {
            let min = size.div_ceil(1 << 20);
            Err(Error::usage(format!(
                "a disk of {requested} MiB is too small for the image `{}`",
                image.display()
            ))
            .hint(format!("use at least `--disk-size {min}`")))
        }
        _ => Ok(()),
    }
}

fn size_of(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).or_build(|| format!("cannot read `{}`", path.display()))?.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn image(dir: &Path) -> PathBuf {
        let path = dir.join("image.raw");
        let file = File::create(&path).unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(b"as built", 1 << 20).unwrap();
        path
    }

    fn read(path: &Path) -> String {
        let mut bytes = [0; 8];
        File::open(path).unwrap().read_exact_at(&mut bytes, 1 << 20).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn change(path: &Path) {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(b"changed!", 1 << 20).unwrap();
    }

    #[test]
    fn a_kept_disk_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (image, path) = (image(dir.path()), dir.path().join("disk.raw"));
        for _ in 0..2 {
            let (kept, _) = VirtualDisk::kept(&image, path.clone(), None).unwrap();
            let about = std::fs::metadata(kept.path()).unwrap();
            assert_eq!(about.permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
    }

    #[test]
    fn an_overlay_may_be_larger_than_its_image() {
        let dir = tempfile::tempdir().unwrap();
        let overlay =
            VirtualDisk::overlay(&image(dir.path()), dir.path().join("overlay"), Some(16)).unwrap();
        let info = tool(
            "qemu-img",
            PACKAGE,
            &["info", "--output=json", &text(&overlay.path).unwrap()].map(str::to_owned),
        )
        .unwrap();
        assert!(
            String::from_utf8_lossy(&info.stdout)
                .contains(&format!("\"virtual-size\": {}", 16 << 20))
        );
    }

    #[test]
    fn a_disk_smaller_than_the_image_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = VirtualDisk::overlay(&image(dir.path()), dir.path().join("overlay"), Some(3))
            .unwrap_err();
        assert_eq!(error.problems[0].hint.as_deref(), Some("use at least `--disk-size 4`"));
    }

    #[test]
    fn a_kept_disk_keeps_its_writes_and_the_image_does_not_change() {
        let dir = tempfile::tempdir().unwrap();
        let image = image(dir.path());
        let path = dir.path().join("kept.raw");
        VirtualDisk::kept(&image, path.clone(), None).unwrap();
        assert_eq!(read(&path), "as built");
        change(&path);
        VirtualDisk::kept(&image, path.clone(), Some(8)).unwrap();
        assert_eq!((read(&path).as_str(), size_of(&path).unwrap()), ("changed!", 8 << 20));
        assert_eq!((read(&image).as_str(), size_of(&image).unwrap()), ("as built", 4 << 20));
    }

    #[test]
    fn a_kept_disk_in_use_is_neither_grown_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (image, path) = (image(dir.path()), dir.path().join("disk.raw"));
        let kept = |size| VirtualDisk::kept(&image, path.clone(), size);
        let first = kept(None).unwrap();
        change(&path);
        let error = kept(Some(8)).unwrap_err().to_string();
        assert!(error.contains("disk.raw`\nhint: `--name NAME`"), "{error}");
        assert_eq!((read(&path).as_str(), size_of(&path).unwrap()), ("changed!", 4 << 20));
        // The first run may still copy the image.
        std::fs::remove_file(&path).unwrap();
        assert!(kept(None).is_err() && !path.exists());
        drop(first);
        kept(None).unwrap();
    }

    #[test]
    fn a_kept_disk_that_an_older_version_uses_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (image, path) = (image(dir.path()), dir.path().join("disk.raw"));
        let kept = || VirtualDisk::kept(&image, path.clone(), None);
        drop(kept().unwrap());
        let older = File::open(&path).unwrap();
        flock(&older, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(kept().is_err());
        drop(older);
        kept().unwrap();
    }

    #[test]
    fn first_runs_at_the_same_time_make_one_disk() {
        let dir = tempfile::tempdir().unwrap();
        let (image, path) = (image(dir.path()), dir.path().join("disk.raw"));
        let start = std::sync::Barrier::new(4);
        let run = || {
            start.wait();
            let kept = VirtualDisk::kept(&image, path.clone(), None).ok();
            start.wait();
            kept.is_some()
        };
        let users = std::thread::scope(|scope| {
            let runs = [(); 4].map(|()| scope.spawn(run));
            runs.into_iter().map(|run| run.join().unwrap()).filter(|used| *used).count()
        });
        assert_eq!(users, 1);
        assert_eq!(read(&path), "as built");
    }

    #[test]
    fn a_kept_disk_of_an_earlier_build_is_outdated() {
        let dir = tempfile::tempdir().unwrap();
        let (image, path) = (image(dir.path()), dir.path().join("disk.raw"));
        assert!(!VirtualDisk::is_outdated(&image, &path).unwrap(), "there is none yet");
        VirtualDisk::kept(&image, path.clone(), None).unwrap();
        change(&path);
        assert!(
            !VirtualDisk::is_outdated(&image, &path).unwrap(),
            "writes of the node do not count"
        );
        let built = std::fs::metadata(&image).unwrap().modified().unwrap();
        let file = File::options().write(true).open(&image).unwrap();
        file.set_modified(built + std::time::Duration::from_secs(1)).unwrap();
        assert!(VirtualDisk::is_outdated(&image, &path).unwrap());
        VirtualDisk::kept(&image, path.clone(), None).unwrap();
        assert!(
            VirtualDisk::is_outdated(&image, &path).unwrap(),
            "running it again does not make it newer"
        );
        std::fs::remove_file(&path).unwrap();
        VirtualDisk::kept(&image, path.clone(), None).unwrap();
        assert!(!VirtualDisk::is_outdated(&image, &path).unwrap());
    }
}
