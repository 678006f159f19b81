//! Replaces a file of a volume, so that a power cut leaves either the old or the new file.

use zerocopy::FromBytes;

use super::Error;
use super::raw::{BootSector, DirEntry, InfoSector};
use super::tree::{BAD, Tree};
use crate::gpt::Write;
use crate::le;

/// The table's value that ends a chain.
const LAST: u32 = 0x0FFF_FFFF;

/// The first bytes of an [`InfoSector`].
const INFO_SIGNATURE: [u8; 4] = *b"RRaA";

/// Returns the writes that replace the contents of the file at the absolute `path` of `volume` with
/// `bytes`. Make them in this order and flush each before the next: the new bytes into free
/// clusters, their chain, the one sector with the file's entry, and last the release of the old
/// clusters and of clusters that an earlier power cut left without an owner. A cut during a write
/// does no harm, provided that the medium writes a sector whole or not at all.
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
    // The copies may differ after an earlier power cut.
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

/// Returns the contents of the file at the absolute `path` of `volume`; `None` if there is no such
/// file.
///
/// # Errors
/// The volume is damaged.
pub fn find(volume: &[u8], path: &str) -> Result<Option<Vec<u8>>, Error> {
    let mut tree = Tree::parse(volume)?;
    let node = tree.nodes()?.into_iter().find(|node| !node.is_folder && node.path == path);
    Ok(node.map(|node| tree.content(&node)))
}

/// Returns free clusters for `size` bytes.
fn free(tree: &Tree, size: usize) -> Result<Vec<u32>, Error> {
    let count = size.div_ceil(tree.cluster_size);
    let unused = (2..tree.used.len() as u32)
        .filter(|number| !tree.used[*number as usize] && tree.next(*number) != Some(BAD));
    let chain: Vec<u32> = unused.take(count).collect();
    let [needed, room] = [count, chain.len()].map(|clusters| (clusters * tree.cluster_size) as u64);
    if room < needed { Err(Error::Full { needed, room }) } else { Ok(chain) }
}

/// Returns a write for each run of consecutive clusters, padded with zeros.
fn contents(tree: &Tree, chain: &[u32], bytes: &[u8]) -> Vec<Write> {
    let mut rest = bytes.to_vec();
    rest.resize(chain.len() * tree.cluster_size, 0);
    let row = |numbers: &[u32]| {
        let behind = rest.split_off(numbers.len() * tree.cluster_size);
        Write { offset: tree.place(numbers[0]) as u64, bytes: std::mem::replace(&mut rest, behind) }
    };
    chain.chunk_by(|one, next| one + 1 == *next).map(row).collect()
}

/// Sets the table's value for a cluster. Its upper four bits are reserved and stay.
fn link(fat: &mut [u8], number: u32, next: u32) {
    let place = number as usize * 4;
    let upper = le::u32_at(fat, place).unwrap_or(0) & 0xF000_0000;
    le::put_u32(fat, place, upper | next);
}

/// Returns the write for a copy of the table at offset `start` with the contents `before`: the
/// sectors from the first changed one to the last.
fn table(tree: &Tree, start: usize, before: &[u8], after: &[u8]) -> Option<Write> {
    let size = tree.sector_size;
    let mut changed =
        (0..after.len() / size).filter(|n| before[n * size..][..size] != after[n * size..][..size]);
    let first = changed.next()?;
    let part = first * size..(changed.next_back().unwrap_or(first) + 1) * size;
    Some(Write { offset: (start + part.start) as u64, bytes: after[part].to_vec() })
}

/// Returns the sector with a file's directory entry, with a new first cluster and size.
fn entry(tree: &Tree, at: usize, first: u32, size: u32) -> Write {
    let start = at / tree.sector_size * tree.sector_size;
    let mut sector = tree.bytes[start..start + tree.sector_size].to_vec();
    if let Ok((entry, _)) = DirEntry::mut_from_prefix(&mut sector[at - start..]) {
        entry.set_first_cluster(first);
        entry.size = size.into();
    }
    Write { offset: start as u64, bytes: sector }
}

/// Returns the sector with the number of free clusters, if the volume has one.
fn count(tree: &Tree, free: u32) -> Option<Write> {
    let (boot, _) = BootSector::ref_from_prefix(tree.bytes).ok()?;
    let start = usize::from(boot.info_sector.get()) * tree.sector_size;
    let mut sector = tree.bytes.get(start..start + tree.sector_size)?.to_vec();
    let (info, _) = InfoSector::mut_from_prefix(&mut sector).ok()?;
    if info.signature != INFO_SIGNATURE {
        return None;
    }
    info.free_clusters = free.into();
    Some(Write { offset: start as u64, bytes: sector })
}
