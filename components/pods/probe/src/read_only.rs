//! Makes the node's disk one that takes no write to its partition table, as a disk at its end does,
//! and then takes writes again.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::partition::Partition;
use crate::sys;

/// A partition of every node's disk.
const ANY: &str = "SLOT-A";

/// Makes the disk of the node whose root is `host` read-only, or ends that. A file system that is
/// mounted is not kept from writing (block/blk-core.c: `bio_check_ro`).
pub fn set(host: &Path, is_so: bool) -> io::Result<()> {
    let disk = File::open(Partition::named(host, ANY)?.disk(host))?;
    sys::set_read_only(&disk, is_so)
}
