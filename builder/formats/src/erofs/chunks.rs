//! Where the data of a file lie that is stored in chunks, each at any place, or nowhere where it is
//! all zeros.

use super::{Image, Inode};
use crate::le;

/// `format`: the size of a chunk, in powers of two of a block.
const SIZE: u64 = 0x1F;
/// `format`: entries of 8 bytes, with the number of a device, rather than bare numbers of blocks.
const INDEXES: u64 = 0x20;
/// The number of no block.
const NOWHERE: u32 = u32::MAX;
/// The largest chunk that is read, as a power of two: what `mkfs.erofs` is asked for is far below.
const LARGEST: u64 = 30;

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Its bytes in the file.
    pub length: u64,
    /// Where they stand in the image, in bytes; `None` for zeros.
    pub start: Option<u64>,
}

/// The chunks of a file, in their order. One that is `None` is damaged, or on another device.
pub(super) fn chunks<'a>(
    image: &'a Image,
    inode: &Inode,
    number: u64,
) -> Option<impl Iterator<Item = Option<Chunk>> + use<'a>> {
    let (format, size) = (inode.block & 0xFFFF, inode.size);
    let bits = u64::from(image.block_size.trailing_zeros()) + (format & SIZE);
    if format & !(SIZE | INDEXES) != 0 || bits > LARGEST {
        return None;
    }
    let (chunk, has_devices) = (1 << bits, format & INDEXES != 0);
    let unit = if has_devices { 8 } else { 4 };
    let start =
        image.position(number)?.checked_add(inode.length)?.checked_next_multiple_of(unit)?;
    let table = image.slice(start, size.div_ceil(chunk).checked_mul(unit)?)?;
    Some(table.chunks_exact(unit as usize).enumerate().map(move |(index, entry)| {
        let is_here = !has_devices || le::u16_at(entry, 2)? == 0;
        let block = le::u32_at(entry, unit as usize - 4).filter(|_| is_here)?;
        let start = (block != NOWHERE).then(|| u64::from(block) * image.block_size);
        Some(Chunk { length: chunk.min(size - index as u64 * chunk), start })
    }))
}
