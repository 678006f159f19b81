//! System calls that no library wraps. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_long};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A call to try, with its name.
type Call = (&'static str, fn() -> io::Result<()>);

/// System calls that change the running kernel or start another one, with invalid arguments. The
/// errno is `ENOSYS` if the kernel does not have the call, `EPERM` if it refuses the caller, and
/// about the arguments otherwise.
pub const CALLS: [Call; 5] = [
    ("kexec_load", || refused(libc::SYS_kexec_load, [0, 0, 0, WRONG])),
    ("kexec_file_load", || refused(KEXEC_FILE_LOAD, [WRONG; 4])),
    ("init_module", || refused(libc::SYS_init_module, [0; 4])),
    ("finit_module", || refused(libc::SYS_finit_module, [WRONG; 4])),
    // The control: it requires the same capability as kexec, and the kernel checks the caller first
    // (reboot(2)).
    ("reboot", || refused(libc::SYS_reboot, [0; 4])),
];

/// System calls that every program may make, and that change nothing.
pub const HARMLESS: [Call; 2] = [
    ("getpriority", || refused(libc::SYS_getpriority, [0; 4])),
    ("getsid", || refused(libc::SYS_getsid, [0; 4])),
];

/// Neither a descriptor nor flags.
const WRONG: c_long = -1;

/// libc does not define it for arm64 (asm-generic/unistd.h).
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: c_long = 294;
#[cfg(not(target_arch = "aarch64"))]
const KEXEC_FILE_LOAD: c_long = libc::SYS_kexec_file_load;

/// `BLKROSET` is `_IO(0x12, 93)` (linux/fs.h).
const BLKROSET: u32 = 0x125D;

/// Makes the kernel refuse or accept writes to this disk's device file.
pub fn set_read_only(disk: &File, is_read_only: bool) -> io::Result<()> {
    let flag = c_int::from(is_read_only);
    // SAFETY: the descriptor is open for as long as `disk` is borrowed, and the kernel reads one
    // number where `flag` is.
    match unsafe { libc::ioctl(disk.as_raw_fd(), BLKROSET as _, &flag) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Turns the swap on this device off (swapoff(2)).
pub fn swapoff(device: &Path) -> io::Result<()> {
    let device = CString::new(device.as_os_str().as_bytes())?;
    // SAFETY: the kernel reads the path up to its NUL.
    match unsafe { libc::swapoff(device.as_ptr()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn refused(number: c_long, [a, b, c, d]: [c_long; 4]) -> io::Result<()> {
    // SAFETY: no argument is a valid address, so the kernel neither reads nor writes this program's
    // memory.
    match unsafe { libc::syscall(number, a, b, c, d) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
