//! A recording of a machine's writes, in the format of Linux's dm-log-writes as QEMU's
//! `blklogwrites` writes it (Documentation/admin-guide/device-mapper/log-writes.rst): a superblock
//! sector, and then entries, each a sector of metadata and the data. All numbers are little-endian.
//! QEMU does not mark writes with FUA; a machine with virtio-blk sends none.

use osbuild::error::{Context, Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes in a sector of the log and of the disk.
pub const SECTOR: u64 = 512;

const MAGIC: u64 = 0x006A_7366_7773_6872;

/// Flag: every earlier write is on the medium.
const FLUSH: u64 = 1;
/// Flag: the sectors are discarded, and the entry has no data.
const DISCARD: u64 = 4;

/// One write, discard or flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first byte on the disk.
    pub start: u64,
    /// How many bytes.
    pub length: u64,
    /// Offset of the data in the log; none for a discard, after which the bytes are zeros.
    pub data: Option<u64>,
    /// Every earlier write is on the medium.
    pub flushes: bool,
}

/// A recording.
pub struct Recording {
    log: File,
    /// The entries, first to last.
    pub entries: Vec<Entry>,
}

impl Recording {
    /// Opens the log of a machine.
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read the recording `{}`", path.display());
        let log = File::open(path).or_build(cannot)?;
        let head = sector(&log, 0).or_build(cannot)?;
        if number(&head, 0) != MAGIC || number(&head, 24) & 0xFFFF_FFFF != SECTOR {
            return Err(Error::build(format!("`{}` is not a recording of a disk", path.display())));
        }
        let mut entries = Vec::new();
        let mut at = SECTOR;
        for _ in 0..number(&head, 16) {
            let entry = Entry::parse(&sector(&log, at).or_build(cannot)?, at + SECTOR);
            if entry.length == 0 && !entry.flushes {
                let number = entries.len();
                return Err(Error::build(format!(
                    "entry {number} of `{}` is none",
                    path.display()
                ))
                .cause("QEMU could not record a write, which was an I/O error for the node"));
            }
            at += SECTOR + entry.data.map_or(0, |_| entry.length);
            entries.push(entry);
        }
        Ok(Recording { log, entries })
    }

    /// A recording of these entries, whose data are zeros.
    #[cfg(test)]
    pub fn of(entries: Vec<Entry>) -> Self {
        Recording { log: tempfile::tempfile().expect("a test can make a file"), entries }
    }

    /// Bytes of an entry's data, from `offset` in it.
    pub fn read(&self, entry: &Entry, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        if let Some(data) = entry.data {
            self.log
                .read_exact_at(&mut bytes, data + offset)
                .or_build(|| "cannot read the recording".to_owned())?;
        }
        Ok(bytes)
    }
}

impl Entry {
    fn parse(sector: &[u8], behind: u64) -> Entry {
        let flags = number(sector, 16);
        let length = number(sector, 8) * SECTOR;
        Entry {
            start: number(sector, 0) * SECTOR,
            length,
            data: (flags & DISCARD == 0).then_some(behind),
            flushes: flags & FLUSH != 0,
        }
    }
}

fn sector(log: &File, at: u64) -> std::io::Result<[u8; SECTOR as usize]> {
    let mut bytes = [0; SECTOR as usize];
    log.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_recording_of_qemu_io_holds_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, log) = (folder.path().join("disk"), folder.path().join("log"));
        File::create(&disk).unwrap().set_len(1 << 20).unwrap();
        File::create(&log).unwrap();
        let options = format!(
            "driver=blklogwrites,log-sector-size=512,log.driver=raw,log.file.driver=file,\
             log.file.filename={},file.driver=raw,file.discard=unmap,file.file.driver=file,\
             file.file.filename={}",
            log.display(),
            disk.display()
        );
        let mut qemu = Command::new("qemu-io");
        for command in
            ["write -P 65 4096 1024", "flush", "write -P 66 512 512", "discard 8192 4096", "flush"]
        {
            qemu.args(["-c", command]);
        }
        assert!(qemu.args(["--image-opts", &options]).output().unwrap().status.success());
        let recording = Recording::open(&log).unwrap();
        let writes: Vec<&Entry> =
            recording.entries.iter().filter(|entry| entry.length > 0).collect();
        let fields = |entry: &Entry| (entry.start, entry.length, entry.data.is_some());
        assert_eq!(
            writes.iter().map(|entry| fields(entry)).collect::<Vec<_>>(),
            [(4096, 1024, true), (512, 512, true), (8192, 4096, false)]
        );
        assert_eq!(recording.read(writes[0], 512, 512).unwrap(), [65; 512]);
        assert_eq!(recording.read(writes[1], 0, 512).unwrap(), [66; 512]);
        let flushes: Vec<bool> = recording.entries.iter().map(|entry| entry.flushes).collect();
        assert_eq!(flushes, [false, true, false, false, true]);
    }

    #[test]
    fn an_entry_without_a_write_and_a_flush_is_damage() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = file.as_file();
        log.write_all_at(&MAGIC.to_le_bytes(), 0).unwrap();
        log.write_all_at(&1u64.to_le_bytes(), 16).unwrap();
        log.write_all_at(&SECTOR.to_le_bytes(), 24).unwrap();
        log.set_len(2 * SECTOR).unwrap();
        assert!(Recording::open(file.path()).is_err());
        log.write_all_at(&FLUSH.to_le_bytes(), SECTOR + 16).unwrap();
        assert_eq!(Recording::open(file.path()).unwrap().entries.len(), 1);
    }
}
