//! Memory that no process has: files of a tmpfs.

use super::desk::Desk;
use crate::vm::probe;
use crate::vm::settings::Lab;
use osbuild::error::{Context, Error, Result};
use std::io::Write;

/// A tmpfs that may get as large as the memory.
const SCRATCH: &str = "type: Mount\nid: scratch\nspec: {type: tmpfs, source: scratch, target: \
                       /run/mnt/scratch, options: [size=2g]}\n";
/// The file that uses the memory up.
const FILE: &str = "run/mnt/scratch/cache";
/// The memory that it leaves, in MiB: enough that the kernel kills nothing.
const LEFT: u64 = 150;
/// A part of its bytes.
const BLOCK: u64 = 1 << 20;

pub fn is_found_and_freed(lab: &Lab, desk: &mut Desk) -> Result<()> {
    desk.apply("scratch", SCRATCH)?;
    desk.finds("memory gone", &["get", "mountstatuses", "-o", "yaml"], &["mounted: true"])?;
    let available = available_mib(&lab.node.read("/proc/meminfo")?)?;
    let size = available.saturating_sub(LEFT) * BLOCK;
    fill(lab, FILE, size)?;
    let problem = ["of memory are available", "files in memory (tmpfs)"];
    desk.finds("memory gone", &["status"], &problem)?;
    desk.run(&["top", "--rows", "5"])?;
    desk.finds("memory gone", &["read", "/proc/1/mounts"], &["/run/mnt/scratch tmpfs"])?;
    desk.run(&["delete", "mount", "scratch"])?;
    desk.misses("memory gone", &["status"], &["of memory are available"])
}

/// Has the node write a file of so many bytes.
pub fn fill(lab: &Lab, path: &str, size: u64) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o600);
    header.set_size(size);
    let cannot = || format!("cannot write {path} on the node");
    header.set_path(path).or_build(cannot)?;
    header.set_cksum();
    let zeros = vec![0; BLOCK as usize];
    probe::command(lab.node.places, |stream| {
        stream.write_all(header.as_bytes())?;
        (0..size / BLOCK).try_for_each(|_| stream.write_all(&zeros))?;
        // The end of an archive.
        stream.write_all(&zeros[..1024])
    })
}

fn available_mib(meminfo: &str) -> Result<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib >> 10).ok_or_else(|| Error::build("the node does not show its memory"))
}
