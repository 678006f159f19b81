//! The places of a compressed file's data: its clusters, and the extents that they form.
//!
//! A file is divided into clusters of one block each. A cluster in which compressed data begin is a
//! head and has the number of their first block; the others continue the data before them. This
//! reader supports the default of `mkfs.erofs`: one compact index per cluster.

use zerocopy::FromBytes;

use super::raw::MapHeader;
use super::{Image, Inode};
use crate::le;

/// The only supported block size: the 12 bits of a compact index hold an offset in such a block.
const BLOCK_SIZE: u64 = 4096;
const HEADER: u64 = size_of::<MapHeader>() as u64;
/// `h_advise`: packs of 16 indexes of 2 bytes.
const PACKS_OF_16: u16 = 1;
/// `h_advise`: data may take more than one block.
const MANY_BLOCKS: u16 = 2;
/// `h_advise`: the same for a second compression algorithm, which this reader does not support.
const MANY_BLOCKS_OF_SECOND: u16 = 4;
/// The flag of a block count, in the cluster after a head.
const COUNT: u32 = 1 << 11;

/// A contiguous range of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its bytes in the file.
    pub length: u64,
    /// The offset of its data in the image in bytes.
    pub start: u64,
    /// Bytes of its data there, with padding.
    pub stored: u64,
    /// Whether the data are compressed with LZ4.
    pub is_compressed: bool,
}

/// One cluster.
#[derive(Clone, Copy)]
enum Cluster {
    /// Data begin in it.
    Head { is_compressed: bool, offset: u64, block: u64 },
    /// It continues data; the first after the head may have their number of blocks.
    Inside { blocks: Option<u64> },
}

/// Returns the extents of a file in order; `None` if they are damaged or written with unsupported
/// options of `mkfs.erofs`.
pub(super) fn extents(image: &Image, inode: &Inode, number: u64) -> Option<Vec<Extent>> {
    let header = image.position(number)?.checked_add(inode.length)?.checked_next_multiple_of(8)?;
    let map = MapHeader::ref_from_bytes(image.slice(header, HEADER)?).ok()?;
    let advise = map.advise.get();
    if advise & !(PACKS_OF_16 | MANY_BLOCKS | MANY_BLOCKS_OF_SECOND) != 0
        || map.algorithms != 0
        || map.cluster_bits != 0
        || image.block_size != BLOCK_SIZE
    {
        return None;
    }
    let indexes =
        Indexes { image, start: header + HEADER, count: inode.size.div_ceil(BLOCK_SIZE), advise };
    // Each cluster has an index, so a file with more clusters than the image has bytes is damaged.
    if indexes.count > image.bytes.len() as u64 {
        return None;
    }
    join(&indexes.read()?, inode.size)
}

fn join(clusters: &[Cluster], size: u64) -> Option<Vec<Extent>> {
    let mut extents = Vec::new();
    let mut end = size;
    for (index, cluster) in clusters.iter().enumerate().rev() {
        let Cluster::Head { is_compressed, offset, block } = *cluster else { continue };
        let begin = index as u64 * BLOCK_SIZE + offset;
        let blocks = match clusters.get(index + 1) {
            Some(Cluster::Inside { blocks: Some(blocks) }) => *blocks,
            _ => 1,
        };
        let length = end.checked_sub(begin)?;
        // The last head may be at the end of the file, with no data.
        if length > 0 {
            extents.push(Extent {
                length,
                start: block.checked_mul(BLOCK_SIZE)?,
                stored: blocks * BLOCK_SIZE,
                is_compressed,
            });
        }
        end = begin;
    }
    extents.reverse();
    (end == 0).then_some(extents)
}

/// The indexes of a file.
struct Indexes<'a> {
    image: &'a Image<'a>,
    start: u64,
    count: u64,
    advise: u16,
}

impl Indexes<'_> {
    /// Reads the indexes, which are in packs that end with the block of their first data. Packs of
    /// two precede the first 32-byte boundary and follow the last whole pack of 16.
    fn read(&self) -> Option<Vec<Cluster>> {
        let before = (32 - self.start % 32) / 4 % 8;
        let packed = match self.advise & PACKS_OF_16 {
            0 => 0,
            _ => self.count.saturating_sub(before) / 16 * 16,
        };
        let (mut clusters, mut position) = (Vec::new(), self.start);
        while (clusters.len() as u64) < self.count {
            let (count, size) = if (before..before + packed).contains(&(clusters.len() as u64)) {
                (16, 32)
            } else {
                (2, 8)
            };
            self.pack(self.image.slice(position, size)?, count, &mut clusters)?;
            position += size;
        }
        clusters.truncate(usize::try_from(self.count).ok()?);
        Some(clusters)
    }

    /// Reads the indexes of one pack.
    fn pack(&self, pack: &[u8], count: usize, clusters: &mut Vec<Cluster>) -> Option<()> {
        let (indexes, base) = pack.split_at_checked(pack.len() - 4)?;
        let bits = indexes.len() * 8 / count;
        let is_one_block = self.advise & MANY_BLOCKS == 0;
        let mut block = u64::from(le::u32_at(base, 0)?) + u64::from(is_one_block);
        let mut follows_head = false;
        for index in 0..count {
            let at = index * bits;
            let value = le::u32_at(pack, at / 8)? >> (at % 8);
            let (kind, low) = (value >> 12 & 3, value & 0xFFF);
            // A head without a block count takes one block.
            let own = block + u64::from(follows_head);
            let found = cluster(kind, low, own)?;
            match found {
                Cluster::Head { .. } => (block, follows_head) = (own, true),
                Cluster::Inside { blocks: Some(blocks) } => {
                    (block, follows_head) = (block + blocks, false)
                }
                Cluster::Inside { blocks: None } => {}
            }
            clusters.push(found);
        }
        Some(())
    }
}

/// Decodes a cluster from its kind and the low bits of its index, whose meaning depends on the
/// kind. Data that begin in it start at `block`.
fn cluster(kind: u32, low: u32, block: u64) -> Option<Cluster> {
    match kind {
        0 | 1 => Some(Cluster::Head { is_compressed: kind == 1, offset: low.into(), block }),
        2 => {
            Some(Cluster::Inside { blocks: (low & COUNT != 0).then_some(u64::from(low & !COUNT)) })
        }
        _ => None,
    }
}
