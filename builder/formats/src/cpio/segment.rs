//! An initramfs as a row of segments: archives, each compressed by itself or not at all. The kernel unpacks them one after
//! the other, so that a change to one file costs only that file's segment.

use std::io::{Read, Write};

use super::{Entry, Error, archive};

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const CPIO_MAGIC: &[u8] = b"0707";
/// The kernel looks for an archive at multiples of this many bytes only.
const ALIGNMENT: usize = 4;
/// No segment of ours grows to this many bytes; one that does is an attack on the reader's memory.
const MOST: u64 = 1 << 32;

/// One segment as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Whether it is compressed, with zstd.
    pub compressed: bool,
    /// Bytes that it takes in the initramfs, without padding.
    pub size: usize,
    /// Its entries in the order of the archive.
    pub entries: Vec<Entry<'a>>,
}

/// Compresses an archive with zstd on `threads` threads, at least one; the bytes are the same for any number of them.
pub fn compress<W: Write>(archive: &[u8], level: i32, threads: u32, out: W) -> Result<W, Error> {
    let mut encoder = zstd::Encoder::new(out, level)?;
    // Zero would mean another way of compressing, with other bytes.
    encoder.multithread(threads.max(1))?;
    encoder.set_pledged_src_size(Some(archive.len() as u64))?;
    encoder.write_all(archive)?;
    Ok(encoder.finish()?)
}

/// Writes segments one behind the other, each padded to 4 bytes.
pub fn join<'a, W: Write>(segments: impl IntoIterator<Item = &'a [u8]>, mut out: W) -> Result<W, Error> {
    for segment in segments {
        out.write_all(segment)?;
        let padding = segment.len().next_multiple_of(ALIGNMENT) - segment.len();
        out.write_all(&[0; ALIGNMENT][..padding])?;
    }
    Ok(out)
}

/// Reads all segments of an initramfs.
pub fn read(initramfs: &[u8]) -> Result<Vec<Segment<'_>>, Error> {
    let mut segments = Vec::new();
    let mut offset = 0;
    while let Some(rest) = skip_zeros(initramfs, &mut offset) {
        let (compressed, (entries, size)) = if rest.starts_with(CPIO_MAGIC) {
            if !offset.is_multiple_of(ALIGNMENT) {
                return Err(Error::Misaligned(offset));
            }
            (false, archive::read(rest)?)
        } else if rest.starts_with(&ZSTD_MAGIC) {
            (true, unzstd(rest)?)
        } else {
            return Err(Error::Unknown(offset));
        };
        segments.push(Segment { compressed, size, entries });
        offset += size;
    }
    Ok(segments)
}

/// Moves `offset` to the next byte that is not zero and gives what starts there; `None` at the end.
fn skip_zeros<'a>(bytes: &'a [u8], offset: &mut usize) -> Option<&'a [u8]> {
    let rest = bytes.get(*offset..)?;
    let zeros = rest.iter().position(|byte| *byte != 0)?;
    *offset += zeros;
    Some(&rest[zeros..])
}

/// Reads the compressed segment at the start of `bytes`: its entries, and how many bytes it takes.
fn unzstd(bytes: &[u8]) -> Result<(Vec<Entry<'static>>, usize), Error> {
    let mut decoder = zstd::Decoder::with_buffer(bytes)?.single_frame();
    let mut archive = Vec::new();
    (&mut decoder).take(MOST).read_to_end(&mut archive)?;
    let size = bytes.len() - decoder.finish().len();
    let (entries, _) = archive::read(&archive)?;
    Ok((entries.into_iter().map(Entry::into_owned).collect(), size))
}
