//! An initramfs as a row of segments: archives, each compressed by itself or not at all. The kernel unpacks them one after
//! the other, so that a change to one file costs only that file's segment.

use std::io::{Read, Write};

use super::{Entry, Error, archive};

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const CPIO_MAGIC: &[u8] = b"0707";
/// The kernel looks for an archive at multiples of this many bytes only.
const ALIGNMENT: usize = 4;
/// Compressed segments together may hold so many times what they take, and [`MARGIN`] besides. What holds more is an attack on the
/// reader's memory: files of a root hold two to ten times as much.
const GROWTH: u64 = 256;
/// What they may hold besides, in bytes: small files can be nothing but zeros.
const MARGIN: u64 = 2 << 20;
/// How many bytes are uncompressed before the reader looks how many there are.
const PIECE: u64 = 1 << 20;

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
    let (mut offset, mut most) = (0, MARGIN);
    while let Some(rest) = skip_zeros(initramfs, &mut offset) {
        let segment = if rest.starts_with(CPIO_MAGIC) {
            if !offset.is_multiple_of(ALIGNMENT) {
                return Err(Error::Misaligned(offset));
            }
            let (entries, size) = archive::read(rest)?;
            Segment { compressed: false, size, entries }
        } else if rest.starts_with(&ZSTD_MAGIC) {
            let (archive, size) = unzstd(rest, most)?.ok_or(Error::Grows(offset))?;
            most = most + GROWTH * size as u64 - archive.len() as u64;
            let entries = archive::read(&archive)?.0.into_iter().map(Entry::into_owned).collect();
            Segment { compressed: true, size, entries }
        } else {
            return Err(Error::Unknown(offset));
        };
        offset += segment.size;
        segments.push(segment);
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

/// Uncompresses the segment at the start of `bytes`: the archive, and how many bytes it took. `None` when it holds more than `most`
/// bytes beyond its growth.
fn unzstd(bytes: &[u8], most: u64) -> Result<Option<(Vec<u8>, usize)>, Error> {
    let mut decoder = zstd::Decoder::with_buffer(bytes)?.single_frame();
    let mut archive = Vec::new();
    loop {
        let read = (&mut decoder).take(PIECE).read_to_end(&mut archive)?;
        let size = bytes.len() - decoder.get_ref().len();
        if archive.len() as u64 > most + GROWTH * size as u64 {
            return Ok(None);
        }
        if read == 0 {
            return Ok(Some((archive, size)));
        }
    }
}
