//! The process that has made a connection of a unix socket (unix(7)).

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::checked;

/// `SO_PEERPIDFD` (`asm-generic/socket.h`), since Linux 6.5.
const PEER_PROCESS: c_int = 77;

/// The process that has made a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its process identifier, which may be that of another process once it has ended.
    pub pid: i32,
    /// A descriptor of it; none if it has been reaped.
    pub process: Option<OwnedFd>,
}

/// The process that has connected to a listening socket, of which `socket` is the other end. It may
/// have passed its own end on. The kernel knows it whatever its network namespace is.
pub fn of(socket: impl AsFd) -> io::Result<Peer> {
    // SAFETY: the kernel writes this plain C structure.
    let credentials: libc::ucred = unsafe { option(&socket, libc::SO_PEERCRED)? };
    // SAFETY: the kernel writes the number of a descriptor, which nothing else owns.
    let opened = unsafe { option::<c_int>(&socket, PEER_PROCESS).map(|n| OwnedFd::from_raw_fd(n)) };
    let opened = opened.or_else(|error| match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => by_number(credentials.pid),
        _ => Err(error),
    });
    let process = match opened {
        Ok(process) => Some(process),
        // Releases differ in the error for a process that has been reaped.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => None,
        Err(error) => return Err(error),
    };
    Ok(Peer { pid: credentials.pid, process })
}

/// The process with a number, for kernels on which tests may run: it may be another one.
fn by_number(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// An option of a socket.
///
/// # Safety
/// The kernel writes a value of this type for the option, of which any bits are valid.
unsafe fn option<T>(socket: impl AsFd, name: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    let place = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes to the value, which outlives the call. The
    // value is all zero before, and the caller answers for any other bits.
    unsafe {
        checked(libc::getsockopt(socket, libc::SOL_SOCKET, name, place, &mut length))?;
        Ok(value.assume_init())
    }
}

/// Clients for tests.
#[cfg(test)]
pub mod test_client {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    use std::os::fd::IntoRawFd;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    /// Has the process connect before it executes its program, which keeps the connection. With
    /// `network` it does so from a network namespace of that kind.
    pub fn connects<'c>(
        command: &'c mut Command,
        path: &Path,
        network: UnshareFlags,
    ) -> &'c mut Command {
        let address = SocketAddrUnix::new(path).unwrap();
        let connect = move || {
            // SAFETY: no memory of this process depends on a network namespace.
            unsafe { unshare_unsafe(network)? };
            let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
            connect(&socket, &address)?;
            let _ = socket.into_raw_fd();
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes three system calls and nothing else.
        unsafe { command.pre_exec(connect) }
    }
}
