//! The system call for which there is no safe function. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::io;

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
