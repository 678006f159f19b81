//! The system calls that `rustix` has no safe form of. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Setter, ioctl};

/// `BLKPG` is `_IO(0x12, 105)`.
const BLKPG: Opcode = 0x1269;
const BLKPG_ADD_PARTITION: c_int = 1;
const BLKPG_DEL_PARTITION: c_int = 2;

/// `struct blkpg_ioctl_arg` of `linux/blkpg.h`.
#[repr(C)]
struct BlkpgArgument {
    operation: c_int,
    flags: c_int,
    length: c_int,
    data: *mut c_void,
}

/// `struct blkpg_partition` of `linux/blkpg.h`.
#[repr(C)]
struct BlkpgPartition {
    start: i64,
    length: i64,
    number: c_int,
    devname: [u8; 64],
    volname: [u8; 64],
}

/// Tells the kernel of a partition of an open disk, which need not stand in any table: its start
/// and length in bytes.
pub fn add_partition(disk: impl AsFd, number: u32, start: u64, length: u64) -> io::Result<()> {
    let range =
        |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    blkpg(disk, BLKPG_ADD_PARTITION, number, range(start)?, range(length)?)
}

/// Has the kernel forget a partition that nobody uses any more.
pub fn remove_partition(disk: impl AsFd, number: u32) -> io::Result<()> {
    blkpg(disk, BLKPG_DEL_PARTITION, number, 0, 0)
}

fn blkpg(
    disk: impl AsFd,
    operation: c_int,
    number: u32,
    start: i64,
    length: i64,
) -> io::Result<()> {
    let mut partition = BlkpgPartition {
        start,
        length,
        number: number as c_int,
        devname: [0; 64],
        volname: [0; 64],
    };
    let data = (&raw mut partition).cast();
    let argument =
        BlkpgArgument { operation, flags: 0, length: size_of::<BlkpgPartition>() as c_int, data };
    // SAFETY: the structures have the layout of `linux/blkpg.h`, the kernel only reads them, and
    // both outlive the call.
    unsafe { ioctl(disk, Setter::<BLKPG, BlkpgArgument>::new(argument)) }.map_err(Into::into)
}
