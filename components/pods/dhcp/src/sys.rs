//! The calls that no library wraps: all of the program's unsafe code.

use std::ffi::c_int;
use std::{io, mem};

use socket2::{SockAddr, SockAddrStorage};

/// Makes SIGTERM and SIGINT end the process, which they do not by themselves when it is PID 1 of a
/// container. The leases are left as they are: the pods that end after this one still need the
/// network, and the address keeps its own clock.
pub fn end_on_signals() {
    extern "C" fn end(_signal: c_int) {
        // SAFETY: `_exit` may be called in a signal handler.
        unsafe { libc::_exit(0) }
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler has the type that `signal` wants and calls nothing that is unsafe in
        // one.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
}

/// The address of everybody on a link, for IPv4 over an `AF_PACKET` socket; bound to, it is the
/// link itself.
pub fn everybody_on(index: u32) -> io::Result<SockAddr> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_IP as u16).to_be(),
        sll_ifindex: c_int::try_from(index).map_err(io::Error::other)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    };
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage is meant to be seen as the socket address that its family says, and
    // `sockaddr_ll` fits into it.
    unsafe { *storage.view_as::<libc::sockaddr_ll>() = address };
    // SAFETY: the storage holds an address of this length.
    Ok(unsafe { SockAddr::new(storage, mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t) })
}
