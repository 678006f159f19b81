//! The contents of a disk after a power cut: all flushed writes, and any part of the others in any
//! order.

use super::recording::{Entry, Recording, SECTOR};
use osbuild::error::{Context, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A power cut: how many writes the machine had sent, and which of the unflushed ones are on the
/// medium.
#[derive(Clone, Debug)]
pub struct Cut {
    /// How many entries were sent.
    pub sent: usize,
    /// How many of them are on the medium for certain.
    certain: usize,
    /// The parts of the others that are on it, in the order in which they reached it.
    kept: Vec<Piece>,
}

/// Sectors of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Piece {
    entry: usize,
    /// Bytes of it.
    range: Range<u64>,
}

/// The writes to a part of the disk that are on the medium. Cuts with equal extracts leave the part
/// equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extract(usize, Vec<Piece>);

/// How many of the first `sent` entries are on the medium for certain: those up to the last flush.
fn flushed(entries: &[Entry], sent: usize) -> usize {
    entries[..sent].iter().rposition(|entry| entry.flushes).map_or(0, |at| at + 1)
}

impl Cut {
    /// A random cut after `sent` entries: all of the unflushed writes, none, or mostly a part of
    /// them, reordered, some torn between two sectors.
    pub fn random(recording: &Recording, sent: usize, rng: &mut fastrand::Rng) -> Cut {
        let certain = flushed(&recording.entries, sent);
        Cut { sent, certain, kept: kept(recording, certain..sent, rng) }
    }

    /// A cut after `sent` entries of a disk that loses everything from entry `lost` on, flushed or
    /// not.
    pub fn with_loss(lost: usize, sent: usize) -> Cut {
        Cut { sent, certain: lost, kept: Vec::new() }
    }

    /// The writes to a part of the disk that are on the medium.
    pub fn extract(&self, recording: &Recording, part: impl Fn(&Entry) -> bool) -> Extract {
        let entries = &recording.entries;
        let certain = entries[..self.certain].iter().filter(|entry| part(entry)).count();
        Extract(
            certain,
            self.kept.iter().filter(|piece| part(&entries[piece.entry])).cloned().collect(),
        )
    }
}

/// Random parts of the entries that are not certain.
fn kept(recording: &Recording, sent: Range<usize>, rng: &mut fastrand::Rng) -> Vec<Piece> {
    let share = [0, 50, 90, 100][rng.usize(..4)];
    let mut kept = Vec::new();
    for index in sent {
        let length = recording.entries[index].length;
        let sectors = length / SECTOR;
        if sectors == 0 || rng.u8(..100) >= share {
            continue;
        }
        let torn = sectors > 1 && share < 100 && rng.u8(..100) < 20;
        kept.push(Piece { entry: index, range: if torn { tear(sectors, rng) } else { 0..length } });
    }
    if share < 100 && rng.bool() {
        rng.shuffle(&mut kept);
    }
    kept
}

fn tear(sectors: u64, rng: &mut fastrand::Rng) -> Range<u64> {
    let at = rng.u64(1..sectors) * SECTOR;
    if rng.bool() { 0..at } else { at..sectors * SECTOR }
}

/// A disk to which a recording is replayed. Between two cuts it has the certain entries.
pub struct Medium<'a> {
    recording: &'a Recording,
    disk: File,
    /// How many entries are on it.
    certain: usize,
}

impl<'a> Medium<'a> {
    /// A disk as it was when the recording began.
    pub fn new(recording: &'a Recording, disk: File) -> Self {
        Medium { recording, disk, certain: 0 }
    }

    /// Writes the state after the cut, calls `look`, and undoes the uncertain writes and those that
    /// `look` made with [`Undo`]. Cuts have to be in the order of `sent`.
    pub fn after<T>(&mut self, cut: &Cut, look: impl FnOnce(&mut Undo) -> Result<T>) -> Result<T> {
        for entry in &self.recording.entries[self.certain..cut.certain] {
            let bytes = self.recording.read(entry, 0, entry.length)?;
            self.disk.write_all_at(&bytes, entry.start).or_build(cannot)?;
        }
        self.certain = cut.certain;
        let mut undo = Undo { disk: &self.disk, before: Vec::new() };
        for Piece { entry, range } in &cut.kept {
            let entry = &self.recording.entries[*entry];
            let bytes = self.recording.read(entry, range.start, range.end - range.start)?;
            undo.write(entry.start + range.start, &bytes)?;
        }
        let seen = look(&mut undo);
        undo.all()?;
        seen
    }
}

/// Writes that are undone later.
pub struct Undo<'a> {
    disk: &'a File,
    before: Vec<(u64, Vec<u8>)>,
}

impl Undo<'_> {
    /// Writes bytes at an offset.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut before = vec![0; bytes.len()];
        self.disk.read_exact_at(&mut before, offset).or_build(cannot)?;
        self.before.push((offset, before));
        self.disk.write_all_at(bytes, offset).or_build(cannot)
    }

    /// The disk as it is now.
    pub fn disk(&self) -> &File {
        self.disk
    }

    fn all(self) -> Result<()> {
        self.before
            .iter()
            .rev()
            .try_for_each(|(offset, bytes)| self.disk.write_all_at(bytes, *offset))
            .or_build(cannot)
    }
}

fn cannot() -> String {
    "cannot read or write the disk of a power cut".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(start: u64) -> Entry {
        Entry { start: start * SECTOR, length: 2 * SECTOR, data: None, flushes: false }
    }

    const FLUSH: Entry = Entry { start: 0, length: 0, data: None, flushes: true };

    #[test]
    fn flushed_writes_are_certain_and_any_part_of_the_rest_occurs() {
        let entries = [write(0), FLUSH, write(2), write(4)];
        assert_eq!((flushed(&entries, 1), flushed(&entries, 2), flushed(&entries, 4)), (0, 2, 2));
        let recording = Recording::of(entries.to_vec());
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..400 {
            let cut = Cut::random(&recording, 4, &mut fastrand::Rng::with_seed(seed));
            seen.insert(
                cut.kept
                    .iter()
                    .map(|piece| (piece.entry, piece.range.clone().count()))
                    .collect::<Vec<_>>(),
            );
        }
        for kept in [
            vec![],
            vec![(2, 1024), (3, 1024)],
            vec![(3, 1024), (2, 1024)],
            vec![(3, 1024)],
            vec![(2, 512), (3, 1024)],
        ] {
            assert!(seen.contains(&kept), "{kept:?}");
        }
        assert!(seen.iter().flatten().all(|(entry, _)| *entry >= 2));
    }

    #[test]
    fn the_disk_is_restored_after_each_cut() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 4096], 0).unwrap();
        let recording = Recording::of(vec![write(0), FLUSH, write(3)]);
        let mut medium = Medium::new(&recording, file.try_clone().unwrap());
        let cut = Cut { sent: 3, certain: 2, kept: vec![Piece { entry: 2, range: 0..1024 }] };
        let read = |file: &File| {
            let mut bytes = [0; 4096];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes.map(|byte| byte == 7).chunks(512).map(|sector| sector[0]).collect::<Vec<_>>()
        };
        let during = medium.after(&cut, |undo| {
            undo.write(3584, &[1; 512])?;
            Ok(read(undo.disk()))
        });
        assert_eq!(during.unwrap(), [false, false, true, false, false, true, true, false]);
        assert_eq!(read(&file), [false, false, true, true, true, true, true, true]);
    }
}
