//! Checks of a disk after a power cut: slotboot's own code must find a slot to start, and sgdisk,
//! mtools, e2fsck and debugfs must find no damage.

use super::cut::Undo;
use super::recording::{Entry, SECTOR};
use crate::site::Site;
use crate::vm::data::check;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::disk::{DATA, ESP};
use osbuild_formats::ext4;
use osbuild_formats::gpt::{Geometry, Label, Source, Table, Write};
use osbuild_protocol::BootReport;
use osbuild_slots::{Header, Machine, Slot, boot};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of the backup of a partition table.
const BACKUP: u64 = 33 * SECTOR;

/// The checks of a disk.
pub struct DiskChecker<'a> {
    site: &'a Site<'a>,
    /// The disk's file.
    path: PathBuf,
    /// A folder for copies of its parts.
    folder: PathBuf,
    /// The boot programs, one of which must be on the disk.
    programs: Vec<Digest>,
    data_start: u64,
    ends: [u64; 2],
}

impl<'a> DiskChecker<'a> {
    /// The checks of the disk `path`, which is as it was before the recording; its end was at
    /// `before` before it grew.
    pub fn new(
        site: &'a Site<'a>,
        path: &Path,
        folder: &Path,
        before: u64,
        programs: Vec<Digest>,
    ) -> Result<Self> {
        let disk = File::open(path).or_build(cannot)?;
        let table = table(&disk)?;
        let data_start = partition(&table, DATA)?.first * SECTOR;
        let ends = [before, disk.metadata().or_build(cannot)?.len()];
        Ok(DiskChecker {
            site,
            path: path.to_owned(),
            folder: folder.to_owned(),
            programs,
            data_start,
            ends,
        })
    }

    /// Whether an entry can be in DATA, which grows up to the end of the disk.
    pub fn is_data(&self, entry: &Entry) -> bool {
        entry.start >= self.data_start
    }

    /// Whether an entry can be in what is before DATA, or in the backup of a partition table, which
    /// is at the end of the disk or where that was before it grew.
    pub fn is_rest(&self, entry: &Entry) -> bool {
        let end = entry.start + entry.length;
        !self.is_data(entry) || self.ends.iter().any(|at| entry.start < *at && end > at - BACKUP)
    }

    /// Checks everything but DATA: slotboot must start a slot, and leave a sound partition table.
    ///
    /// # Errors
    /// The disk does not boot.
    pub fn check_boot(&self, undo: &mut Undo) -> Result<()> {
        let geometry = geometry(undo.disk())?;
        let mut machine = ReplayMachine { undo, geometry, started: None };
        let stop = boot(&mut machine);
        if machine.started.is_none() {
            return Err(Error::build("slotboot finds nothing to start").cause(stop.to_string()));
        }
        let verified = self.tool(Command::new("sgdisk").arg("-v").arg(&self.path))?;
        if !verified.contains("No problems found") {
            return Err(Error::build(
                "`sgdisk` finds fault with the partition table that slotboot leaves",
            )
            .cause(verified));
        }
        match self.programs.contains(&self.program(&table(undo.disk())?)?) {
            true => Ok(()),
            false => Err(Error::build("the boot program is neither the old nor the new one")),
        }
    }

    /// The program that the firmware starts.
    fn program(&self, table: &Table) -> Result<Digest> {
        let esp = partition(table, ESP)?.first * SECTOR;
        let at = self.folder.join("boot.efi");
        let image = format!("{}@@{esp}", self.path.display());
        self.tool(
            Command::new("mcopy")
                .args(["-n", "-o", "-i", &image, "::EFI/BOOT/BOOTX64.EFI"])
                .arg(&at),
        )?;
        Ok(Digest::of(&fs::read(&at).or_build(cannot)?))
    }

    /// Checks DATA up to the end of the disk: it must be sound after `init`'s repair and a replay
    /// of the journal, and contain the probe's first `synced` files.
    ///
    /// # Errors
    /// DATA is damaged, or has lost a flushed file.
    pub fn check_data(&self, disk: &File, synced: u32) -> Result<()> {
        let data = self.folder.join("data");
        let size = disk.metadata().or_build(cannot)?.len();
        copy(disk, self.data_start, size - self.data_start, &data).or_build(cannot)?;
        mend(&data)?;
        check(self.site, &data)?;
        if synced == 0 {
            return Ok(());
        }
        let files = self.folder.join("synced");
        let _ = fs::remove_dir_all(&files);
        let dump = format!("rdump synced {}", self.folder.display());
        self.tool(Command::new("debugfs").args(["-R", &dump]).arg(&data))?;
        (1..=synced).try_for_each(|number| is_whole(&files.join(number.to_string()), number))
    }

    fn tool(&self, command: &mut Command) -> Result<String> {
        Ok(self.site.finish("power-tool", command)?.output)
    }
}

fn geometry(disk: &File) -> Result<Geometry> {
    Geometry::new(SECTOR, disk.metadata().or_build(cannot)?.len()).or_build(cannot)
}

fn table(mut disk: &File) -> Result<Table> {
    let geometry = geometry(disk)?;
    Ok(Label::read(&mut disk, geometry).or_build(cannot)?.table().clone())
}

fn partition<'t>(table: &'t Table, name: &str) -> Result<&'t osbuild_formats::gpt::Partition> {
    table.named(name).ok_or_else(|| Error::build(format!("the partition {name} is gone")))
}

/// Repairs a file system as `init` does before the mount.
fn mend(path: &Path) -> Result<()> {
    let mut data = File::options().read(true).write(true).open(path).or_build(cannot)?;
    match ext4::mend(&mut data).or_build(cannot)? {
        Some(write) => data.write_all_at(&write.bytes, write.offset).or_build(cannot),
        None => Ok(()),
    }
}

/// A file that the probe has flushed repeats its number from start to end.
fn is_whole(path: &Path, number: u32) -> Result<()> {
    let bytes = fs::read(path).or_build(|| format!("the synced file {number} is gone"))?;
    let whole =
        bytes.len() == 4096 && bytes.chunks(64).all(|line| file_number(line) == Some(number));
    if whole { Ok(()) } else { Err(Error::build(format!("the synced file {number} is damaged"))) }
}

/// Copies a part of a file and keeps its holes.
pub fn copy(disk: &File, start: u64, length: u64, to: &Path) -> std::io::Result<()> {
    let mut from = disk;
    let (to, end) = (File::create(to)?, start + length);
    to.set_len(length)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = start;
    while let Ok(data) = rustix::fs::seek(from, rustix::fs::SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(from, rustix::fs::SeekFrom::Hole(data))?.min(end);
        at = data.min(end);
        if at == end {
            break;
        }
        while at < hole {
            let part = &mut buffer[..(hole - at).min(1 << 20) as usize];
            from.read_exact_at(part, at)?;
            to.write_all_at(part, at - start)?;
            at += part.len() as u64;
        }
    }
    from.seek(SeekFrom::Start(0)).map(drop)
}

/// A machine for slotboot's own code, which records the slot that it would start.
struct ReplayMachine<'u, 'd> {
    undo: &'u mut Undo<'d>,
    geometry: Geometry,
    started: Option<&'static str>,
}

impl Source for ReplayMachine<'_, '_> {
    type Error = std::io::Error;

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.undo.disk().read_exact_at(bytes, offset)
    }
}

impl Machine for ReplayMachine<'_, '_> {
    type Memory = Vec<u8>;
    type Image = ();

    fn memory(&mut self, size: usize) -> Option<Vec<u8>> {
        Some(vec![0; size])
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn write(&mut self, write: &Write) -> std::io::Result<()> {
        // After a start slotboot continues as if the start had failed.
        if self.started.is_some() {
            return Ok(());
        }
        self.undo
            .write(write.offset, &write.bytes)
            .map_err(|error| std::io::Error::other(error.to_string()))
    }

    fn verifies(&self) -> bool {
        false
    }

    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32] {
        *Digest::of(bytes).hash()
    }

    fn print(&mut self, _: &str) {}

    fn load(&mut self, _: &Slot, _: &[u8]) -> std::result::Result<(), String> {
        Ok(())
    }

    fn unload(&mut self, (): ()) {}

    fn floor(&mut self) -> u32 {
        0
    }

    fn raise_floor(&mut self, _: u32) -> std::result::Result<(), String> {
        Ok(())
    }

    fn start(&mut self, slot: &Slot, _: &Header, (): (), _: &BootReport) -> String {
        self.started.get_or_insert(slot.name);
        "it was started".to_owned()
    }
}

fn cannot() -> String {
    "cannot check the disk of a power cut".to_owned()
}

/// The number in a line of one of the probe's files.
pub fn file_number(line: &[u8]) -> Option<u32> {
    std::str::from_utf8(line).ok()?.strip_prefix("synced ")?.trim().parse().ok()
}
