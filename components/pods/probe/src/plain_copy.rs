//! What `dd bs=1M iflag=fullblock conv=fsync` does at the end of a network's pipe, with the slot that does not run: a test holds the time of an
//! update against that.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of a write.
const BLOCK: usize = 1 << 20;

/// Writes what comes to the partition of that name, from its start, and gives how long it took until all of it was on the medium.
pub fn write(host: &Path, partition: &str, mut bytes: impl Read) -> io::Result<Duration> {
    let mut device = File::options().write(true).open(device(host, partition)?)?;
    let started = Instant::now();
    let mut block = Vec::with_capacity(BLOCK);
    while bytes.by_ref().take(BLOCK as u64).read_to_end(&mut block)? > 0 {
        device.write_all(&block)?;
        block.clear();
    }
    device.sync_all()?;
    Ok(started.elapsed())
}

/// The block device of the partition (block/partitions/core.c: `PARTNAME` in its events).
fn device(host: &Path, partition: &str) -> io::Result<PathBuf> {
    for entry in fs::read_dir(host.join("sys/class/block"))? {
        let entry = entry?;
        let about = fs::read_to_string(entry.path().join("uevent"))?;
        if about.lines().any(|line| line.strip_prefix("PARTNAME=") == Some(partition)) {
            return Ok(host.join("dev").join(entry.file_name()));
        }
    }
    Err(io::Error::other(format!("no disk has a partition {partition}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_go_to_the_partition_of_that_name() {
        let host = tempfile::tempdir().unwrap();
        for (device, name) in [("vda2", "SLOT-A"), ("vda3", "SLOT-B")] {
            let folder = host.path().join("sys/class/block").join(device);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("uevent"), format!("DEVNAME={device}\nPARTNAME={name}\n")).unwrap();
        }
        fs::create_dir(host.path().join("dev")).unwrap();
        fs::write(host.path().join("dev/vda3"), [9; 8]).unwrap();
        let bytes = vec![7; BLOCK + 1];
        write(host.path(), "SLOT-B", &bytes[..]).unwrap();
        assert_eq!(fs::read(host.path().join("dev/vda3")).unwrap(), bytes);
        assert!(!host.path().join("dev/vda2").exists());
        assert!(write(host.path(), "SLOT-C", &bytes[..]).is_err());
    }
}
