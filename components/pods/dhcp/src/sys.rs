//! The calls without a safe wrapper. All `unsafe` of this crate is here.

use std::ffi::c_int;
use std::{io, mem};

use socket2::{SockAddr, SockAddrStorage};

/// The broadcast address of a link for a protocol (`ETH_P_…`) over an `AF_PACKET` socket. Binding
/// to it binds to the link.
pub fn everybody_on(index: u32, protocol: c_int) -> io::Result<SockAddr> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: c_int::try_from(index).map_err(io::Error::other)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    };
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage may be viewed as the socket address of its family, and `sockaddr_ll` fits
    // into it.
    unsafe { *storage.view_as::<libc::sockaddr_ll>() = address };
    // SAFETY: the storage holds an address of this length.
    Ok(unsafe { SockAddr::new(storage, mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t) })
}
