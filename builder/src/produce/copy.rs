//! Copies of the image in the formats of other hosts.

use super::out::{Built, IMAGE_QCOW2, IMAGE_ZST};
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::engine::key::Key;
use crate::error::Result;
use crate::report::{Outcome, Report};
use osbuild_formats::qcow2;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The compression level of zstd: a small node takes a second, and its copy is a tenth larger than
/// with the highest level.
const LEVEL: i32 = 9;

/// A format of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The disk's bytes, with holes where they are zero.
    Raw,
    /// The disk's bytes, compressed with zstd.
    RawZst,
    /// QEMU's format qcow2.
    Qcow2,
}

impl Format {
    /// Makes the copy of a built image, unless there is a current one, and returns its path: for
    /// [`Format::Raw`] that of the image. The same image gives the same bytes.
    ///
    /// # Errors
    /// The image cannot be read, or the disk is full.
    pub fn of_image(self, report: &Report, built: &Built) -> Result<PathBuf> {
        let Built { out, image, .. } = built;
        let name = match self {
            Format::Raw => return Ok(image.clone()),
            Format::RawZst => IMAGE_ZST,
            Format::Qcow2 => IMAGE_QCOW2,
        };
        let program = Digest::of_file(Path::new("/proc/self/exe"))?;
        let key = Key::new("copy").field("program", program);
        let path = out.path(name);
        if out.copy_is_current(name, &key) {
            return Ok(path);
        }
        let step = report.step("copy");
        let unfinished = path.with_extension("unfinished");
        let size =
            self.write(image, &unfinished).inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        fs::rename(&unfinished, &path).at("write", &path)?;
        out.finish_copy(name, &key)?;
        step.done(name, Some(size), Outcome::Ran);
        Ok(path)
    }

    /// Writes the copy and returns its size in bytes.
    fn write(self, image: &Path, to: &Path) -> Result<u64> {
        let mut from = File::open(image).at("read", image)?;
        let size = from.metadata().at("read", image)?.len();
        let mut file = BufWriter::new(File::create(to).at("write", to)?);
        match self {
            Format::Raw => io::copy(&mut from, &mut file).map(drop).at("write", to)?,
            Format::RawZst => compress(BufReader::new(from), size, &mut file).at("write", to)?,
            Format::Qcow2 => qcow2::write(&mut from, size, &mut file).map(drop).at("write", to)?,
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error).at("write", to)?;
        Ok(file.metadata().at("write", to)?.len())
    }
}

/// Compresses with the size and a checksum in the frame, so that a reader sees a truncated file.
fn compress(mut from: impl io::Read, size: u64, to: impl Write) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(to, LEVEL)?;
    encoder.set_pledged_src_size(Some(size))?;
    encoder.include_contentsize(true)?;
    encoder.include_checksum(true)?;
    io::copy(&mut from, &mut encoder)?;
    encoder.finish().map(drop)
}
