//! Copies of the image in the formats that other hosts take.

use super::out::{IMAGE, Out};
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::engine::store::Store;
use crate::error::Result;
use crate::report::{Outcome, Report};
use osbuild_formats::qcow2;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// How hard zstd works: a second for a small node, and a tenth larger than the smallest that it
/// could make.
const LEVEL: i32 = 9;

/// A format of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The disk's bytes, with holes where they are zero.
    Raw,
    /// The same, compressed by zstd.
    RawZst,
    /// QEMU's own.
    Qcow2,
}

impl Format {
    /// Makes the copy of the image in `out`, unless it is there already, and gives its path: for a
    /// raw one, the image's own. The same image gives the same bytes.
    ///
    /// # Errors
    /// The image cannot be read, or the disk is full.
    pub fn of_image(self, store: &Store, report: &Report, out: &Out) -> Result<PathBuf> {
        let image = out.path(IMAGE);
        let name = match self {
            Format::Raw => return Ok(image),
            Format::RawZst => "image.raw.zst",
            Format::Qcow2 => "image.qcow2",
        };
        let _alone = out.lock(store)?;
        let key = Digest::of_file(Path::new("/proc/self/exe"))?;
        let path = out.path(name);
        if out.copy_is_current(name, &key) {
            return Ok(path);
        }
        let step = report.step("copy");
        let unfinished = path.with_extension("unfinished");
        let size =
            self.write(&image, &unfinished).inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        fs::rename(&unfinished, &path).at("write", &path)?;
        out.finish_copy(name, &key)?;
        step.done(name, Some(size), Outcome::Ran);
        Ok(path)
    }

    /// Writes the copy, and gives its size in bytes.
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

/// Whoever unpacks it knows how much there will be, and whether it is whole.
fn compress(mut from: impl io::Read, size: u64, to: impl Write) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(to, LEVEL)?;
    encoder.set_pledged_src_size(Some(size))?;
    encoder.include_contentsize(true)?;
    encoder.include_checksum(true)?;
    io::copy(&mut from, &mut encoder)?;
    encoder.finish().map(drop)
}
