//! Makes the node's disk refuse writes, as a worn-out disk does, and accept them again.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::partition::Partition;
use crate::sys;

/// A partition of the node's disk, by which the disk is found.
const PARTITION: &str = "SLOT-A";

/// Makes the disk of the node whose root is `host` read-only or writable. A mounted file system can
/// still write (block/blk-core.c: `bio_check_ro`).
pub fn set(host: &Path, is_read_only: bool) -> io::Result<()> {
    let disk = File::open(Partition::named(host, PARTITION)?.disk(host))?;
    sys::set_read_only(&disk, is_read_only)
}
