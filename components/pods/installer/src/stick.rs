//! The disk that the machine was booted from.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use osbuild_abi::disk::ESP;
use osbuild_disks::Disk;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::fat;
use osbuild_formats::gpt::{Geometry, Label, Table};
use uuid::Uuid;

/// How long to wait for the booted disk.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long the set of disks must be unchanged before one is chosen.
const SETTLED: Duration = Duration::from_secs(4);
/// The interval between two looks at the disks.
const TICK: Duration = Duration::from_millis(250);
/// The maximum size of the system partition in bytes, which is read into memory.
const MAX_ESP: u64 = 512 << 20;

/// The disk that was booted.
pub struct Stick {
    /// Its name in the kernel.
    pub name: String,
    files: Vec<fat::File<Vec<u8>>>,
}

impl Stick {
    /// Waits for the disk with this GUID, and reads its system partition.
    ///
    /// # Errors
    /// The disk does not appear, or another disk has the same GUID.
    pub fn find(guid: Uuid) -> Outcome<Stick> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let disks: Vec<(Disk, Table)> = osbuild_disks::all()
                .into_iter()
                .filter_map(|disk| table(&disk).map(|table| (disk, table)))
                .collect();
            let mut found = disks.into_iter().filter(|(_, table)| table.disk_guid == guid);
            match (found.next(), found.next()) {
                (Some((disk, table)), None) => return Stick::read(&disk, &table),
                (Some((one, _)), Some((other, _))) => {
                    let names = format!("{} and {}", one.device.display(), other.device.display());
                    return Err(Failure::new(format!(
                        "{names} both have the identifier of the booted disk: take one out"
                    )));
                }
                (None, _) if Instant::now() > end => {
                    return Err(Failure::new("the booted disk does not appear"));
                }
                (None, _) => sleep(TICK),
            }
        }
    }

    fn read(disk: &Disk, table: &Table) -> Outcome<Stick> {
        let esp = table.named(ESP).ok_or_else(|| {
            Failure::new(format!("{} has no partition {ESP}", disk.device.display()))
        })?;
        let (sector_size, sectors) = (u64::from(disk.sector_size), esp.sectors());
        if sectors * sector_size > MAX_ESP {
            return Err(Failure::new(format!(
                "partition {ESP} of {} is too large",
                disk.device.display()
            )));
        }
        let mut bytes = vec![0; (sectors * sector_size) as usize];
        File::open(&disk.device)
            .and_then(|file| file.read_exact_at(&mut bytes, esp.first * sector_size))
            .explain(format_args!("read {ESP} of {}", disk.device.display()))?;
        let files =
            fat::read(&bytes).explain(format_args!("read {ESP} of {}", disk.device.display()))?;
        Ok(Stick { name: disk.name.clone(), files })
    }

    /// The file at this path. Case does not matter, as FAT ignores it.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn file(&self, path: &str) -> Outcome<&[u8]> {
        let path = path.trim_start_matches('/');
        let found = self
            .files
            .iter()
            .find(|file| file.path.trim_start_matches('/').eq_ignore_ascii_case(path));
        found
            .map(|file| &file.bytes[..])
            .ok_or_else(|| Failure::new(format!("the stick has no file `{path}`")))
    }
}

/// The partition table of a disk, if it has one.
pub fn table(disk: &Disk) -> Option<Table> {
    let geometry = Geometry::new(disk.sector_size.into(), disk.size).ok()?;
    let mut file = File::open(&disk.device).ok()?;
    Some(Label::read(&mut file, geometry).ok()?.table().clone())
}

/// All disks, once none has appeared or disappeared for a while.
pub fn settled() -> Vec<Disk> {
    let mut disks = osbuild_disks::all();
    let mut since = Instant::now();
    while since.elapsed() < SETTLED {
        sleep(TICK);
        let now = osbuild_disks::all();
        if names(&now) != names(&disks) {
            (disks, since) = (now, Instant::now());
        }
    }
    disks
}

fn names(disks: &[Disk]) -> Vec<&str> {
    disks.iter().map(|disk| disk.name.as_str()).collect()
}
