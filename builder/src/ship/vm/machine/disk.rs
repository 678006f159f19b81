//! The machine's disk: an overlay that is thrown away, or a copy that is kept.

use super::arguments::escaped;
use super::{absolute, text, tool};
use crate::error::{Context, Error, Result};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The Debian package with `qemu-img`.
const PACKAGE: &str = "qemu-utils";

/// A file that a machine writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    path: PathBuf,
    format: Format,
    record: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// The disk's bytes.
    Raw,
    /// QEMU's format, which holds what differs from another file.
    Overlay,
}

impl Disk {
    /// A raw file as it is.
    pub fn existing(path: PathBuf) -> Self {
        Disk { path, format: Format::Raw, record: None }
    }

    /// Makes `path`, which holds what will differ from `image`. `size_mib` is the size of the disk
    /// when it is not that of the image.
    pub fn overlay(image: &Path, path: PathBuf, size_mib: Option<u64>) -> Result<Self> {
        check_size(image, size_mib)?;
        // qemu-img would take a relative name as one relative to the overlay.
        let image = text(&absolute(image)?)?;
        let mut arguments =
            ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", &image, &text(&path)?]
                .map(str::to_owned)
                .to_vec();
        arguments.extend(size_mib.map(|size| format!("{size}M")));
        tool("qemu-img", PACKAGE, &arguments)?;
        Ok(Disk { path, format: Format::Overlay, record: None })
    }

    /// Takes the raw file `path` as the last run left it, or makes it of `image` when it is not
    /// there. It grows to `size_mib`, and never shrinks. A file beside it says of which image it
    /// was made.
    pub fn kept(image: &Path, path: PathBuf, size_mib: Option<u64>) -> Result<Self> {
        check_size(image, size_mib)?;
        if !path.exists() {
            let part = path.with_extension("part");
            tool(
                "qemu-img",
                PACKAGE,
                &["convert", "-q", "-f", "raw", "-O", "raw", &text(image)?, &text(&part)?]
                    .map(str::to_owned),
            )?;
            let note = origin_of(&path);
            std::fs::write(&note, identity(image)?)
                .or_build(|| format!("cannot write `{}`", note.display()))?;
            std::fs::rename(&part, &path)
                .or_build(|| format!("cannot rename `{}`", part.display()))?;
        }
        let size = size_mib.map_or(0, |size| size << 20);
        if size > size_of(&path)? {
            let grow = || File::options().write(true).open(&path)?.set_len(size);
            grow().or_build(|| format!("cannot grow `{}`", path.display()))?;
        }
        Ok(Disk::existing(path))
    }

    /// Whether the disk that is kept at `path` was made of another image than `image` is now: a
    /// build since then is not on it.
    pub fn is_of_another(image: &Path, path: &Path) -> Result<bool> {
        let origin = std::fs::read_to_string(origin_of(path)).ok();
        Ok(path.exists() && origin != Some(identity(image)?))
    }

    /// The same disk, and the file `record`, which gets every write and every flush in their order,
    /// in the format of Linux's dm-log-writes.
    pub fn recorded(self, record: PathBuf) -> Self {
        Disk { record: Some(record), ..self }
    }

    /// The part of QEMU's `-drive` that names the file.
    pub(super) fn drive(&self) -> Result<String> {
        let file = escaped(&text(&self.path)?);
        let (format, more) = match self.format {
            Format::Raw => ("raw", ""),
            // Nobody looks at an overlay after the machine is gone, so nothing has to reach the
            // host's disk.
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

/// The file that says of which image a kept disk was made.
fn origin_of(disk: &Path) -> PathBuf {
    disk.with_extension("origin")
}

/// What tells an image from one that was built before or after it, without reading it.
fn identity(image: &Path) -> Result<String> {
    let about =
        std::fs::metadata(image).or_build(|| format!("cannot read `{}`", image.display()))?;
    Ok(format!("{} bytes, written at {}.{:09}\n", about.len(), about.mtime(), about.mtime_nsec()))
}

fn check_size(image: &Path, size_mib: Option<u64>) -> Result<()> {
    let size = size_of(image)?;
    match size_mib {
        Some(wanted) if wanted << 20 < size => {
            let least = size.div_ceil(1 << 20);
            Err(Error::usage(format!(
                "a disk of {wanted} MiB is too small for the image `{}`",
                image.display()
            ))
            .hint(format!("use at least `--disk-size {least}`")))
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

    #[test]
    fn an_overlay_may_be_larger_than_its_image() {
        let dir = tempfile::tempdir().unwrap();
        let overlay =
            Disk::overlay(&image(dir.path()), dir.path().join("overlay"), Some(16)).unwrap();
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
        let error =
            Disk::overlay(&image(dir.path()), dir.path().join("overlay"), Some(3)).unwrap_err();
        assert_eq!(error.problems[0].hint.as_deref(), Some("use at least `--disk-size 4`"));
    }

    #[test]
    fn a_kept_disk_keeps_what_was_written_and_leaves_the_image_alone() {
        let dir = tempfile::tempdir().unwrap();
        let image = image(dir.path());
        let path = dir.path().join("kept.raw");
        Disk::kept(&image, path.clone(), None).unwrap();
        assert_eq!(read(&path), "as built");
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(b"changed!", 1 << 20)
            .unwrap();
        Disk::kept(&image, path.clone(), Some(8)).unwrap();
        assert_eq!((read(&path).as_str(), size_of(&path).unwrap()), ("changed!", 8 << 20));
        assert_eq!((read(&image).as_str(), size_of(&image).unwrap()), ("as built", 4 << 20));
    }

    #[test]
    fn a_kept_disk_is_told_from_one_of_the_image_that_is_there_now() {
        let dir = tempfile::tempdir().unwrap();
        let (image, path) = (image(dir.path()), dir.path().join("disk.raw"));
        assert!(!Disk::is_of_another(&image, &path).unwrap(), "there is none yet");
        Disk::kept(&image, path.clone(), None).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(b"changed!", 1 << 20)
            .unwrap();
        assert!(
            !Disk::is_of_another(&image, &path).unwrap(),
            "what the node writes does not count"
        );
        let built = std::fs::metadata(&image).unwrap().modified().unwrap();
        let file = File::options().write(true).open(&image).unwrap();
        file.set_modified(built + std::time::Duration::from_secs(1)).unwrap();
        assert!(Disk::is_of_another(&image, &path).unwrap());
        Disk::kept(&image, path.clone(), None).unwrap();
        assert!(
            Disk::is_of_another(&image, &path).unwrap(),
            "running it again does not make it newer"
        );
        std::fs::remove_file(&path).unwrap();
        Disk::kept(&image, path.clone(), None).unwrap();
        assert!(!Disk::is_of_another(&image, &path).unwrap());
    }
}
