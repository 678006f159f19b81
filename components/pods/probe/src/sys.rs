//! The system calls that no library wraps. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Something to try, by its name.
type Call = (&'static str, fn() -> io::Result<()>);

/// System calls that change the running kernel or start another one, with arguments that no kernel
/// accepts from anybody: one that has the call says so, one that has it not says `ENOSYS`, and one
/// that refuses the caller says `EPERM`.
pub const CALLS: [Call; 5] = [
    ("kexec_load", || refused(libc::SYS_kexec_load, [0, 0, 0, WRONG])),
    ("kexec_file_load", || refused(KEXEC_FILE_LOAD, [WRONG; 4])),
    ("init_module", || refused(libc::SYS_init_module, [0; 4])),
    ("finit_module", || refused(libc::SYS_finit_module, [WRONG; 4])),
    // A control: whoever may start another kernel may restart this one too, and the kernel looks at
    // the caller first (reboot(2)).
    ("reboot", || refused(libc::SYS_reboot, [0; 4])),
];

/// Neither a descriptor nor flags.
const WRONG: c_long = -1;

/// The C library for arm64 has no name for it (asm-generic/unistd.h).
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: c_long = 294;
#[cfg(not(target_arch = "aarch64"))]
const KEXEC_FILE_LOAD: c_long = libc::SYS_kexec_file_load;

/// `BLKROSET` is `_IO(0x12, 93)` (linux/fs.h).
const BLKROSET: u32 = 0x125D;

/// Has the kernel refuse to write what is asked of this disk's device file, or ends that.
pub fn set_read_only(disk: &File, is_so: bool) -> io::Result<()> {
    let flag = c_int::from(is_so);
    // SAFETY: the descriptor is open for as long as `disk` is borrowed, and the kernel reads one
    // number where `flag` is.
    match unsafe { libc::ioctl(disk.as_raw_fd(), BLKROSET as _, &flag) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn refused(number: c_long, [a, b, c, d]: [c_long; 4]) -> io::Result<()> {
    // SAFETY: no argument is the address of anything, so that the kernel neither reads nor writes
    // this program's memory.
    match unsafe { libc::syscall(number, a, b, c, d) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
