//! Copies a stream to a partition as `dd bs=1M iflag=fullblock conv=fsync` does. A test compares
//! the time of an update with it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::partition::Partition;

/// Bytes per write.
const BLOCK: usize = 1 << 20;

/// Writes the bytes to the start of the partition of this name. Returns the time until they were on
/// the medium.
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
    fn the_bytes_are_written_to_the_named_partition() {
        let host = tempfile::tempdir().unwrap();
        partition::tests::create(host.path(), &[("vda2", "SLOT-A"), ("vda3", "SLOT-B")]);
        fs::write(host.path().join("dev/vda3"), [9; 8]).unwrap();
        let bytes = vec![7; BLOCK + 1];
        write(host.path(), "SLOT-B", &bytes[..]).unwrap();
        assert_eq!(fs::read(host.path().join("dev/vda3")).unwrap(), bytes);
        assert!(!host.path().join("dev/vda2").exists());
        assert!(write(host.path(), "SLOT-C", &bytes[..]).is_err());
    }
}
