//! Loop devices: disks that a test may destroy. They need root, as `cargo ci` has it, and without
//! it the test fails.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

/// What an older owner has left on the disk, everywhere.
const STALE: u8 = 0xA5;

/// A disk with an older owner's bytes at many places.
pub struct Loop {
    /// Its device file.
    pub device: String,
    /// The file behind it, of which there is a folder unless it was made elsewhere.
    pub file: PathBuf,
    _folder: Option<TempDir>,
}

impl Loop {
    /// A disk of so many bytes, in sectors of so many.
    pub fn new(size: u64, sector_size: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let file = File::create(&path).unwrap();
        file.set_len(size).unwrap();
        litter(&file, size);
        let mut disk = Loop::of(path, sector_size);
        disk._folder = Some(folder);
        disk
    }

    /// A disk over a file that is there.
    pub fn of(file: PathBuf, sector_size: u32) -> Self {
        let mut losetup = tool("losetup");
        losetup.args(["--find", "--show", "--sector-size", &sector_size.to_string()]).arg(&file);
        Loop { device: run(&mut losetup).trim().to_owned(), file, _folder: None }
    }

    /// A device that is there already. Its bytes are read from the device itself.
    pub fn adopted(device: String) -> Self {
        Loop { file: device.clone().into(), device, _folder: None }
    }

    /// Its bytes at `start`, past what the kernel still has in memory of the device.
    pub fn read(&self, start: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        File::open(&self.file).unwrap().read_exact_at(&mut bytes, start).unwrap();
        bytes
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run(tool("losetup").args(["--detach", &self.device]));
    }
}

/// Writes an older owner's bytes: the ends of the disk, and a part of each 8 MiB between.
pub fn litter(file: &File, size: u64) {
    let stale = vec![STALE; MIB as usize];
    for start in (0..size - MIB).step_by(8 * MIB as usize).chain([size - MIB]) {
        file.write_all_at(&stale, start).unwrap();
    }
}

/// Whether some of an older owner's bytes are left. A single one may be anybody's.
pub fn is_littered(bytes: &[u8]) -> bool {
    bytes.windows(16).any(|window| window == [STALE; 16])
}

/// A program that ordinary users may not have in their path.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// What a program says, which must succeed.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The bytes of a file between two places, if they are there.
pub fn part(path: &Path, start: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    File::open(path).unwrap().read_exact_at(&mut bytes, start).unwrap();
    bytes
}
