//! Loop devices: disks that a test may overwrite. Making them needs root, as in `cargo ci`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

/// A stale byte of an earlier owner.
const STALE: u8 = 0xA5;

/// The lowest number of a [`Loop::replaceable`] device: more than the tests use at a time.
const HIGH_NUMBER: u32 = 1000;

/// A loop device with stale bytes at many offsets.
pub struct Loop {
    /// Its device file.
    pub device: String,
    /// The backing file.
    pub file: PathBuf,
    _folder: Option<TempDir>,
}

impl Loop {
    /// A disk with this size and sector size in bytes.
    pub fn new(size: u64, sector_size: u32) -> Self {
        let (folder, path) = littered(size);
        let mut disk = Loop::of(path, sector_size);
        disk._folder = Some(folder);
        disk
    }

    /// A disk with this size in bytes that a test can replace by another one. `losetup --find`,
    /// which other tests run at the same time, takes the free device with the lowest number, so it
    /// does not take this one while it is free.
    pub fn replaceable(size: u64) -> Self {
        let (folder, file) = littered(size);
        let device = format!("/dev/loop{}", HIGH_NUMBER + std::process::id() % 10_000);
        run(tool("losetup").arg(&device).arg(&file));
        Loop { device, file, _folder: Some(folder) }
    }

    /// Replaces the disk by the one in `file`, as if a user changed the stick in a port.
    pub fn replace(&self, file: &Path) {
        run(tool("losetup").args(["--detach", &self.device]));
        run(tool("losetup").arg(&self.device).arg(file));
    }

    /// A disk over an existing file.
    pub fn of(file: PathBuf, sector_size: u32) -> Self {
        let mut losetup = tool("losetup");
        losetup.args(["--find", "--show", "--sector-size", &sector_size.to_string()]).arg(&file);
        Loop { device: run(&mut losetup).trim().to_owned(), file, _folder: None }
    }

    /// An existing device. Its bytes are read from the device itself.
    pub fn adopted(device: String) -> Self {
        Loop { file: device.clone().into(), device, _folder: None }
    }

    /// Its bytes at `start`, from the backing file, not from the device's page cache.
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

/// A file with this size and stale bytes, in a folder of its own.
fn littered(size: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = File::create(&path).unwrap();
    file.set_len(size).unwrap();
    litter(&file, size);
    (folder, path)
}

/// Writes stale bytes to both ends of the disk, and to a part of each 8 MiB between.
pub fn litter(file: &File, size: u64) {
    let stale = vec![STALE; MIB as usize];
    for start in (0..size - MIB).step_by(8 * MIB as usize).chain([size - MIB]) {
        file.write_all_at(&stale, start).unwrap();
    }
}

/// Whether stale bytes are left. A single byte may be a coincidence.
pub fn is_littered(bytes: &[u8]) -> bool {
    bytes.windows(16).any(|window| window == [STALE; 16])
}

/// A program in the system folders, which may be missing in `PATH`.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// Runs a program, asserts that it succeeds, and returns its output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A range of bytes of a file.
pub fn part(path: &Path, start: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    File::open(path).unwrap().read_exact_at(&mut bytes, start).unwrap();
    bytes
}
