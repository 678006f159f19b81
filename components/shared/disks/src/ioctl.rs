//! The ioctls of a disk's device file (`linux/fs.h`, `linux/blkpg.h`). All `unsafe` of this crate
//! is here.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, ioctl, opcode};

const BLKRRPART: Opcode = opcode::none(0x12, 95);
const BLKPG: Opcode = opcode::none(0x12, 105);
const BLKGETDISKSEQ: Opcode = opcode::read::<u64>(0x12, 128);

/// The operations of `BLKPG`.
#[derive(Clone, Copy)]
enum Operation {
    Add = 1,
    Delete = 2,
    Resize = 3,
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct BlkpgArgument {
    operation: c_int,
    flags: c_int,
    length: c_int,
    data: *mut c_void,
}

/// `struct blkpg_partition`.
#[repr(C)]
struct BlkpgPartition {
    start: i64,
    length: i64,
    number: c_int,
    devname: [u8; 64],
    volname: [u8; 64],
}

/// Adds partition `number` to the kernel's table of an open disk. `start` and `length` are in
/// bytes; the partition table on the disk need not have it.
pub fn add_partition(disk: impl AsFd, number: u32, start: u64, length: u64) -> io::Result<()> {
    blkpg(disk, Operation::Add, number, start, length)
}

/// Removes partition `number` from the kernel's table of an open disk. It must not be in use.
pub fn remove_partition(disk: impl AsFd, number: u32) -> io::Result<()> {
    blkpg(disk, Operation::Delete, number, 0, 0)
}

/// Sets the length in bytes of partition `number` in the kernel's table of an open disk. `start`
/// must be where the partition already starts.
pub fn resize_partition(disk: impl AsFd, number: u32, start: u64, length: u64) -> io::Result<()> {
    blkpg(disk, Operation::Resize, number, start, length)
}

/// Makes the kernel read the partition table again.
///
/// # Errors
/// [`Errno::BUSY`]: a partition of the old table is in use, and the kernel keeps that table.
pub fn reread_partition_table(disk: impl AsFd) -> Result<(), Errno> {
    // SAFETY: this request takes no argument.
    unsafe { ioctl(disk, NoArg::<BLKRRPART>::new()) }
}

/// Returns the disk's sequence number, which no other disk or medium gets until the next boot.
pub fn disk_sequence(disk: impl AsFd) -> Result<u64, Errno> {
    // SAFETY: this request writes one u64, which is what `Getter` has room for.
    unsafe { ioctl(disk, Getter::<BLKGETDISKSEQ, u64>::new()) }
}

fn blkpg(
    disk: impl AsFd,
    operation: Operation,
    number: u32,
    start: u64,
    length: u64,
) -> io::Result<()> {
    let signed =
        |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let mut partition = BlkpgPartition {
        start: signed(start)?,
        length: signed(length)?,
        number: number as c_int,
        devname: [0; 64],
        volname: [0; 64],
    };
    let argument = BlkpgArgument {
        operation: operation as c_int,
        flags: 0,
        length: size_of::<BlkpgPartition>() as c_int,
        data: (&raw mut partition).cast(),
    };
    // SAFETY: the structures have the layout of `linux/blkpg.h`, the kernel only reads them, and
    // both outlive the call.
    unsafe { ioctl(disk, Setter::<BLKPG, BlkpgArgument>::new(argument)) }.map_err(Into::into)
}
