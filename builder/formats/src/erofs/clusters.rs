//! Where the data of a compressed file lie: its clusters, and the extents that they make.
//!
//! A file is cut into clusters of one block each. A cluster in which compressed data begin is a
//! head and names their first block; the others lie inside what began before them. What
//! `mkfs.erofs` writes by default is read here: compact indexes, one a cluster.

use super::{Image, Inode};
use crate::le;

/// The only size of a block whose compact indexes are read: it is the most that their 12 bits can
/// count in.
const BLOCK_SIZE: u64 = 4096;
/// `z_erofs_map_header`, which stands before the indexes.
const HEADER: u64 = 8;
/// `h_advise`: packs of 16 indexes of 2 bytes.
const PACKS_OF_16: u16 = 1;
/// `h_advise`: data may take more than one block.
const MANY_BLOCKS: u16 = 2;
/// `h_advise`: so may those of a second kind of compression, of which nothing is read here.
const MANY_BLOCKS_OF_SECOND: u16 = 4;
/// Marks a number of blocks, in the cluster behind a head.
const COUNT: u32 = 1 << 11;

/// A stretch of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its bytes in the file.
    pub length: u64,
    /// Where its data stand in the image, in bytes.
    pub start: u64,
    /// How many bytes they take there, with what they are padded with.
    pub stored: u64,
    /// Whether they are compressed, by LZ4.
    pub is_compressed: bool,
}

/// One cluster.
#[derive(Clone, Copy)]
enum Cluster {
    /// Data begin in it.
    Head { is_compressed: bool, offset: u64, block: u64 },
    /// It lies inside of data; the first behind the head may have their number of blocks.
    Inside { blocks: Option<u64> },
}

/// The extents of a file, in their order. None if they are damaged, or made by options of
/// `mkfs.erofs` that are not known here.
pub(super) fn extents(image: &Image, inode: &Inode, number: u64) -> Option<Vec<Extent>> {
    let header = image.position(number)?.checked_add(inode.length)?.checked_next_multiple_of(8)?;
    let bytes = image.slice(header, HEADER)?;
    let (advise, algorithm, cluster_bits) = (le::u16_at(bytes, 4)?, bytes[6], bytes[7]);
    if advise & !(PACKS_OF_16 | MANY_BLOCKS | MANY_BLOCKS_OF_SECOND) != 0
        || algorithm != 0
        || cluster_bits != 0
        || image.block_size != BLOCK_SIZE
    {
        return None;
    }
    let indexes =
        Indexes { image, start: header + HEADER, count: inode.size.div_ceil(BLOCK_SIZE), advise };
    // A file has an index for each cluster: one that is longer than its image has room for is
    // damaged.
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
        // A head may stand where the file ends, and nothing behind it.
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
    /// In packs, each with the block of its first data at its end. Packs of two stand before the
    /// first that is aligned to 32 bytes, and behind the last whole pack of 16.
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
            // A head whose number of blocks did not follow takes one.
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

/// A cluster by the bits of its kind and of its index, of which each kind has another use. Data
/// that begin in it stand at `block`.
fn cluster(kind: u32, low: u32, block: u64) -> Option<Cluster> {
    match kind {
        0 | 1 => Some(Cluster::Head { is_compressed: kind == 1, offset: low.into(), block }),
        2 => {
            Some(Cluster::Inside { blocks: (low & COUNT != 0).then_some(u64::from(low & !COUNT)) })
        }
        _ => None,
    }
}
