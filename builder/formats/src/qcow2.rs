//! A disk image in QEMU's format qcow2, version 3 (QEMU, docs/interop/qcow2.rst), which does not
//! store clusters of zeros.
//!
//! The code is our own: of the crates for this format one only reads it, and the other is an
//! asynchronous block layer for virtual machines. This writer makes one kind of file, once, from
//! front to back: header, reference counts, two levels of tables, data.

use std::io::{self, Read, Seek, SeekFrom, Write};

/// log2 of the bytes in a cluster: QEMU's default.
const CLUSTER_BITS: u32 = 16;
/// Bytes in a cluster.
const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// Entries of 8 bytes in a cluster: in one second-level table, and clusters of the first level.
const ENTRIES: u64 = CLUSTER / 8;
/// Reference counts of 16 bits in a cluster.
const COUNTS: u64 = CLUSTER / 2;
/// log2 of the bits in a reference count.
const COUNT_ORDER: u32 = 4;
/// Bytes of the header in version 3 without extensions.
const HEADER: u32 = 104;
/// The flag of an entry whose cluster has exactly one reference.
const COPIED: u64 = 1 << 63;
static ZEROS: [u8; CLUSTER as usize] = [0; CLUSTER as usize];

/// The layout of a file, in clusters.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The image's size in bytes.
    size: u64,
    /// The clusters of the image that are not zero, in order.
    stored: Vec<u64>,
    /// Clusters of the reference count table, which follows the header.
    count_tables: u64,
    /// Clusters of the reference counts, which follow.
    counts: u64,
    /// Clusters of the first-level table, which follow.
    first_level: u64,
    /// The second-level tables, which follow, by their index in the first-level table.
    second_level: Vec<u64>,
}

/// Writes `image`, read from its start, whose `size` in bytes is a multiple of 512. Returns the
/// size of the file.
///
/// # Errors
/// Reading or writing failed.
pub fn write<R: Read + Seek, W: Write>(image: &mut R, size: u64, out: &mut W) -> io::Result<u64> {
    let mut cluster = vec![0; CLUSTER as usize];
    let mut stored = Vec::new();
    for index in 0..size.div_ceil(CLUSTER) {
        read(image, index, size, &mut cluster)?;
        if cluster[..] != ZEROS[..] {
            stored.push(index);
        }
    }
    let plan = Plan::new(size, stored);
    out.write_all(&plan.tables())?;
    for &index in &plan.stored {
        read(image, index, size, &mut cluster)?;
        out.write_all(&cluster)?;
    }
    Ok(plan.clusters() * CLUSTER)
}

/// Reads one cluster. The last one may be short, and is padded with zeros.
fn read<R: Read + Seek>(
    image: &mut R,
    index: u64,
    size: u64,
    cluster: &mut [u8],
) -> io::Result<()> {
    let start = index * CLUSTER;
    let length = CLUSTER.min(size - start) as usize;
    image.seek(SeekFrom::Start(start))?;
    image.read_exact(&mut cluster[..length])?;
    cluster[length..].fill(0);
    Ok(())
}

impl Plan {
    fn new(size: u64, stored: Vec<u64>) -> Self {
        let entries = size.div_ceil(CLUSTER).div_ceil(ENTRIES).max(1);
        let mut second_level: Vec<u64> = stored.iter().map(|index| index / ENTRIES).collect();
        second_level.dedup();
        let mut plan = Plan {
            size,
            stored,
            count_tables: 1,
            counts: 1,
            first_level: entries.div_ceil(ENTRIES),
            second_level,
        };
        // Reference counts cover their own clusters, so one more of them may require yet another.
        loop {
            let counts = plan.clusters().div_ceil(COUNTS);
            let count_tables = counts.div_ceil(ENTRIES);
            if (counts, count_tables) == (plan.counts, plan.count_tables) {
                return plan;
            }
            (plan.counts, plan.count_tables) = (counts, count_tables);
        }
    }

    /// The number of clusters of the whole file.
    fn clusters(&self) -> u64 {
        self.first_data() + self.stored.len() as u64
    }

    fn first_level_at(&self) -> u64 {
        1 + self.count_tables + self.counts
    }

    fn first_data(&self) -> u64 {
        self.first_level_at() + self.first_level + self.second_level.len() as u64
    }

    /// Returns everything before the data.
    fn tables(&self) -> Vec<u8> {
        let mut bytes = self.header();
        let whole = |entries: Vec<u64>, clusters: u64| {
            let mut bytes: Vec<u8> = entries.into_iter().flat_map(u64::to_be_bytes).collect();
            bytes.resize((clusters * CLUSTER) as usize, 0);
            bytes
        };
        let first_count = 1 + self.count_tables;
        bytes.extend(whole(
            (0..self.counts).map(|index| (first_count + index) * CLUSTER).collect(),
            self.count_tables,
        ));
        let mut counts: Vec<u8> = (0..self.clusters()).flat_map(|_| 1u16.to_be_bytes()).collect();
        counts.resize((self.counts * CLUSTER) as usize, 0);
        bytes.extend(counts);
        let mut first_level = vec![0; self.first_level_entries() as usize];
        let tables = self.first_level_at() + self.first_level;
        for (index, entry) in (tables..).zip(&self.second_level) {
            first_level[*entry as usize] = (index * CLUSTER) | COPIED;
        }
        bytes.extend(whole(first_level, self.first_level));
        let mut second_level = vec![0; self.second_level.len() * ENTRIES as usize];
        let mut table = 0;
        for (place, index) in (self.first_data()..).zip(&self.stored) {
            while self.second_level[table] != index / ENTRIES {
                table += 1;
            }
            second_level[table * ENTRIES as usize + (index % ENTRIES) as usize] =
                (place * CLUSTER) | COPIED;
        }
        bytes.extend(whole(second_level, self.second_level.len() as u64));
        bytes
    }

    fn first_level_entries(&self) -> u64 {
        self.size.div_ceil(CLUSTER).div_ceil(ENTRIES)
    }

    /// Returns the header in a cluster of its own. All other fields are zero: no backing file, no
    /// encryption, no snapshots, no features.
    fn header(&self) -> Vec<u8> {
        let mut header = vec![0; CLUSTER as usize];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"QFI\xFB");
        put(4, &3u32.to_be_bytes());
        put(20, &CLUSTER_BITS.to_be_bytes());
        put(24, &self.size.to_be_bytes());
        put(36, &(self.first_level_entries() as u32).to_be_bytes());
        put(40, &(self.first_level_at() * CLUSTER).to_be_bytes());
        put(48, &CLUSTER.to_be_bytes());
        put(56, &(self.count_tables as u32).to_be_bytes());
        put(96, &COUNT_ORDER.to_be_bytes());
        put(100, &HEADER.to_be_bytes());
        header
    }
}
