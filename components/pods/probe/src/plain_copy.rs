//! What `dd bs=1M iflag=fullblock conv=fsync` does at the end of a network's pipe, with the slot
//! that does not run: a test holds the time of an update against that.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::partition::Partition;

/// Bytes of a write.
const BLOCK: usize = 1 << 20;

/// Writes what comes to the partition of that name, from its start, and gives how long it took
/// until all of it was on the medium.
pub fn write(host: &Path, partition: &str, mut bytes: impl Read) -> io::Result<Duration> {
    let mut device =
        File::options().write(true).open(Partition::named(host, partition)?.device(host))?;
    let started = Instant::now();
    let mut block = Vec::with_capacity(BLOCK);
    while bytes.by_ref().take(BLOCK as u64).read_to_end(&mut block)? > 0 {
        device.write_all(&block)?;
        block.clear();
    }
    device.sync_all()?;
    Ok(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition;
    use std::fs;

    #[test]
    fn the_bytes_go_to_the_partition_of_that_name() {
        let host = tempfile::tempdir().unwrap();
        partition::tests::have(host.path(), &[("vda2", "SLOT-A"), ("vda3", "SLOT-B")]);
        fs::write(host.path().join("dev/vda3"), [9; 8]).unwrap();
        let bytes = vec![7; BLOCK + 1];
        write(host.path(), "SLOT-B", &bytes[..]).unwrap();
        assert_eq!(fs::read(host.path().join("dev/vda3")).unwrap(), bytes);
        assert!(!host.path().join("dev/vda2").exists());
        assert!(write(host.path(), "SLOT-C", &bytes[..]).is_err());
    }
}
