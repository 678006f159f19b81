//! The system calls for which there are no safe functions. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SYSLOG_ACTION_READ_ALL` and `SYSLOG_ACTION_SIZE_BUFFER` (syslog(2)).
const READ_ALL: c_int = 3;
const SIZE_BUFFER: c_int = 10;

/// The text of the kernel's log, as far as its buffer has it. It takes the capability `SYSLOG`.
pub fn kernel_log() -> io::Result<Vec<u8>> {
    // SAFETY: this action ignores the buffer.
    let size = checked(unsafe { libc::klogctl(SIZE_BUFFER, std::ptr::null_mut(), 0) })?;
    let mut text = vec![0u8; size];
    let length = c_int::try_from(size).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes, which the buffer has.
    let read = unsafe { libc::klogctl(READ_ALL, text.as_mut_ptr().cast::<c_char>(), length) };
    text.truncate(checked(read)?);
    Ok(text)
}

fn checked(returned: c_int) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Sets a number of a socket (setsockopt(2)).
pub fn set_option(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: `value` points to `length` bytes, which the kernel reads alone.
    let returned = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) };
    checked(returned).map(drop)
}

/// A number of a socket (getsockopt(2)).
pub fn option(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let (mut value, mut length): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    let to = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes, which `value` has.
    let returned =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut length) };
    checked(returned).map(|_| value)
}
