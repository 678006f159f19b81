//! A file of a volume replaced by another one, so that a power cut leaves the old or the new one,
//! and never none.

use super::Error;
use super::tree::{BAD, Tree};
use crate::gpt::Write;
use crate::le;

/// A cluster number that ends a chain.
const LAST: u32 = 0x0FFF_FFFF;

/// Where a folder's entry has the upper half of its first cluster's number.
const HIGH: usize = 20;
/// Where it has the lower half, and behind that the size.
const LOW: usize = 26;

/// Where the volume's first sector has the number of the one that counts free clusters, and where
/// that has the count.
const COUNTER: usize = 48;
const COUNT: usize = 488;
/// How that sector begins.
const COUNTER_MAGIC: u32 = 0x4161_5252;

/// The writes that make the file at the absolute `path` of `volume` hold `bytes`. They are to be
/// made in this order, each on the medium before the next begins: the new bytes into clusters that
/// nothing uses, their chain, then the one sector with the file's entry, and last the room of the
/// old bytes and of whatever an earlier cut has left without an owner. A cut within a write does no
/// harm, as long as the medium writes a sector whole or not at all.
///
/// # Errors
/// The volume is damaged, has no such file, or no room for both.
pub fn replace(volume: &[u8], path: &str, bytes: &[u8]) -> Result<Vec<Write>, Error> {
    let mut tree = Tree::parse(volume)?;
    let node = tree.nodes()?.into_iter().find(|node| !node.is_folder && node.path == path);
    let node = node.ok_or_else(|| Error::Path(path.to_owned()))?;
    let size = u32::try_from(bytes.len()).map_err(|_| Error::TooLarge(bytes.len() as u64))?;
    let chain = free(&tree, bytes.len())?;
    let mut writes = contents(&tree, &chain, bytes);

    let mut linked = tree.fat.to_vec();
    for (index, number) in chain.iter().enumerate() {
        link(&mut linked, *number, chain.get(index + 1).copied().unwrap_or(LAST));
    }
    // After an earlier cut the copies may differ.
    writes.extend(
        tree.copies()
            .filter_map(|start| table(&tree, start, &volume[start..][..linked.len()], &linked)),
    );
    writes.push(entry(&tree, node.entry, chain.first().copied().unwrap_or(0), size));

    let mut kept = tree.used.clone();
    node.extents.iter().for_each(|extent| kept[tree.number(*extent)] = false);
    chain.iter().for_each(|number| kept[*number as usize] = true);
    let mut freed = linked.clone();
    for number in
        (2..kept.len()).filter(|number| !kept[*number] && tree.next(*number as u32) != Some(BAD))
    {
        link(&mut freed, number as u32, 0);
    }
    writes.extend(tree.copies().filter_map(|start| table(&tree, start, &linked, &freed)));
    writes.extend(count(&tree, kept.iter().skip(2).filter(|is_kept| !**is_kept).count() as u32));
    Ok(writes)
}

/// What the file at the absolute `path` of `volume` holds; `None` if there is no such file.
///
/// # Errors
/// The volume is damaged.
pub fn find(volume: &[u8], path: &str) -> Result<Option<Vec<u8>>, Error> {
    let mut tree = Tree::parse(volume)?;
    let node = tree.nodes()?.into_iter().find(|node| !node.is_folder && node.path == path);
    Ok(node.map(|node| tree.content(&node)))
}

/// Clusters for so many bytes that no file has.
fn free(tree: &Tree, size: usize) -> Result<Vec<u32>, Error> {
    let count = size.div_ceil(tree.cluster_size);
    let unused = (2..tree.used.len() as u32)
        .filter(|number| !tree.used[*number as usize] && tree.next(*number) != Some(BAD));
    let chain: Vec<u32> = unused.take(count).collect();
    let [needed, room] = [count, chain.len()].map(|clusters| (clusters * tree.cluster_size) as u64);
    if room < needed { Err(Error::Full { needed, room }) } else { Ok(chain) }
}

/// The bytes in their clusters, with zeros behind them: a write for each row of clusters.
fn contents(tree: &Tree, chain: &[u32], bytes: &[u8]) -> Vec<Write> {
    let mut rest = bytes.to_vec();
    rest.resize(chain.len() * tree.cluster_size, 0);
    let row = |numbers: &[u32]| {
        let behind = rest.split_off(numbers.len() * tree.cluster_size);
        Write { offset: tree.place(numbers[0]) as u64, bytes: std::mem::replace(&mut rest, behind) }
    };
    chain.chunk_by(|one, next| one + 1 == *next).map(row).collect()
}

/// Sets what follows a cluster. The upper four bits are not part of it, and stay.
fn link(fat: &mut [u8], number: u32, next: u32) {
    let place = number as usize * 4;
    let upper = le::u32_at(fat, place).unwrap_or(0) & 0xF000_0000;
    le::put(fat, place, (upper | next).to_le_bytes());
}

/// The sectors from the first to the last in which a copy of the table, which starts at `start` and
/// holds `before`, changes.
fn table(tree: &Tree, start: usize, before: &[u8], after: &[u8]) -> Option<Write> {
    let size = tree.sector_size;
    let mut changed =
        (0..after.len() / size).filter(|n| before[n * size..][..size] != after[n * size..][..size]);
    let first = changed.next()?;
    let part = first * size..(changed.next_back().unwrap_or(first) + 1) * size;
    Some(Write { offset: (start + part.start) as u64, bytes: after[part].to_vec() })
}

/// The sector with a file's entry, which has another first cluster and size then.
fn entry(tree: &Tree, at: usize, first: u32, size: u32) -> Write {
    let start = at / tree.sector_size * tree.sector_size;
    let mut sector = tree.bytes[start..start + tree.sector_size].to_vec();
    let (high, low) = (at - start + HIGH, at - start + LOW);
    le::put(&mut sector, high, ((first >> 16) as u16).to_le_bytes());
    le::put(&mut sector, low, (first as u16).to_le_bytes());
    le::put(&mut sector, low + 2, size.to_le_bytes());
    Write { offset: start as u64, bytes: sector }
}

/// The sector that says how many clusters are free, where the volume has one. Nobody has to believe
/// it.
fn count(tree: &Tree, free: u32) -> Option<Write> {
    let start = usize::from(le::u16_at(tree.bytes, COUNTER)?) * tree.sector_size;
    let mut sector = tree.bytes.get(start..start + tree.sector_size)?.to_vec();
    le::u32_at(&sector, 0).filter(|magic| *magic == COUNTER_MAGIC)?;
    le::put(&mut sector, COUNT, free.to_le_bytes());
    Some(Write { offset: start as u64, bytes: sector })
}
