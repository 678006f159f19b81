//! The places of a file's data in chunks: at arbitrary offsets, or nowhere if a chunk is all zeros.

use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::U32;

use super::raw::ChunkIndex;
use super::{Image, Inode};

/// `format`: log2 of the blocks in a chunk.
const SIZE: u64 = 0x1F;
/// `format`: entries are [`ChunkIndex`]es with a device, not bare block numbers.
const INDEXES: u64 = 0x20;
/// The block number of a hole.
const HOLE: u32 = u32::MAX;
/// log2 of the largest supported chunk in bytes, far above what `mkfs.erofs` writes here.
const MAX_BITS: u64 = 30;

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Its bytes in the file.
    pub length: u64,
    /// Their offset in the image in bytes; `None` for zeros.
    pub start: Option<u64>,
}

/// Returns the chunks of a file in order. A `None` is a chunk that is damaged or on another device.
pub(super) fn chunks<'a>(
    image: &'a Image,
    inode: &Inode,
    number: u64,
) -> Option<impl Iterator<Item = Option<Chunk>> + use<'a>> {
    let (format, size) = (inode.block & 0xFFFF, inode.size);
    let bits = u64::from(image.block_size.trailing_zeros()) + (format & SIZE);
    if format & !(SIZE | INDEXES) != 0 || bits > MAX_BITS {
        return None;
    }
    let (chunk, has_devices) = (1 << bits, format & INDEXES != 0);
    let unit = if has_devices { 8 } else { 4 };
    let start =
        image.position(number)?.checked_add(inode.length)?.checked_next_multiple_of(unit)?;
    let table = image.slice(start, size.div_ceil(chunk).checked_mul(unit)?)?;
    Some(table.chunks_exact(unit as usize).enumerate().map(move |(index, entry)| {
        let block = if has_devices {
            let index = ChunkIndex::ref_from_bytes(entry).ok()?;
            (index.device_id == 0).then_some(index.blkaddr.get())?
        } else {
            U32::ref_from_bytes(entry).ok()?.get()
        };
        let start = (block != HOLE).then(|| u64::from(block) * image.block_size);
        Some(Chunk { length: chunk.min(size - index as u64 * chunk), start })
    }))
}
