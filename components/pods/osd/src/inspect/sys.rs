//! The system calls for which there are no safe functions. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use socket2::{SockAddr, SockAddrStorage};
use std::ffi::{c_char, c_int};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::unix::AsyncFd;

/// `SYSLOG_ACTION_READ_ALL` and `SYSLOG_ACTION_SIZE_BUFFER` (syslog(2)).
const READ_ALL: c_int = 3;
const SIZE_BUFFER: c_int = 10;

/// The most of the kernel's log that is read, in bytes: the container has 32 MiB of memory. It
/// suffices for a ring of 2.6 MiB.
const MAX_KERNEL_LOG: usize = 8 << 20;

/// The bytes for the text of a ring of this size. The kernel puts a prefix with the priority and
/// the time, about 20 bytes, before each message, and the ring has a message for each 32 bytes at
/// most. If the text does not fit, the kernel leaves out the oldest messages.
fn text_size(ring: usize) -> usize {
    ring.saturating_mul(3).min(MAX_KERNEL_LOG)
}

/// The text of the kernel's log, as far as its buffer has it. It takes the capability `SYSLOG`.
pub fn kernel_log() -> io::Result<Vec<u8>> {
    // SAFETY: this action ignores the buffer.
    let size = checked(unsafe { libc::klogctl(SIZE_BUFFER, std::ptr::null_mut(), 0) })?;
    let mut text = vec![0u8; text_size(size)];
    let length = c_int::try_from(text.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes, which the buffer has.
    let read = unsafe { libc::klogctl(READ_ALL, text.as_mut_ptr().cast::<c_char>(), length) };
    text.truncate(checked(read)?);
    Ok(text)
}

fn checked(returned: c_int) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// A descriptor whose readiness the runtime reports. There has to be one.
pub fn registered(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the value owns its descriptor, and gives away shared references to it alone, so it is
    // neither closed nor replaced before it is removed from the runtime.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
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

/// How many packets a socket has received and dropped since the last question (packet(7)).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketCounters {
    /// Those that were received, and those that were dropped.
    pub all: u32,
    /// Those for which there was no room.
    pub dropped: u32,
    /// How often there was no room.
    pub freezes: u32,
}

/// Asks a socket with a ring for its counters, which begin again.
pub fn packet_counters(socket: BorrowedFd<'_>) -> io::Result<PacketCounters> {
    let mut counters = PacketCounters::default();
    let mut length = size_of::<PacketCounters>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    let to = (&raw mut counters).cast();
    // SAFETY: the kernel writes at most `length` bytes, which `counters` has; any are valid.
    let returned =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut length) };
    checked(returned).map(|_| counters)
}

/// Gives a socket a ring for packets.
pub fn set_ring(socket: BorrowedFd<'_>, ring: &libc::tpacket_req3) -> io::Result<()> {
    let value = (&raw const *ring).cast();
    let length = size_of::<libc::tpacket_req3>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_RX_RING);
    // SAFETY: `value` points to `length` bytes, which the kernel reads alone.
    let returned = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) };
    checked(returned).map(drop)
}

/// Has a link receive packets for other machines, too, until the socket is closed.
pub fn set_promiscuous(socket: BorrowedFd<'_>, link: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: c_int::try_from(link).map_err(io::Error::other)?,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let value = (&raw const request).cast();
    let length = size_of::<libc::packet_mreq>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
    // SAFETY: `value` points to `length` bytes, which the kernel reads alone.
    let returned = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) };
    checked(returned).map(drop)
}

/// The address of a link for an `AF_PACKET` socket; 0 stands for all links.
pub fn link_address(link: u32, protocol: u16) -> io::Result<SockAddr> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: c_int::try_from(link).map_err(io::Error::other)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage may be viewed as the socket address of its family, and `sockaddr_ll` fits
    // into it.
    unsafe { *storage.view_as::<libc::sockaddr_ll>() = address };
    // SAFETY: the storage holds an address of this length.
    Ok(unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) })
}

/// The memory of a socket's ring, which the kernel fills a block after the other.
pub struct RingMemory {
    start: NonNull<u8>,
    block_size: usize,
    blocks: usize,
    /// The block that is filled next.
    next: usize,
}

// SAFETY: the memory belongs to the value alone, and no thread has a part in it.
unsafe impl Send for RingMemory {}
// SAFETY: through a shared reference only the status of a block is read, as a whole.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// Maps the ring of a socket, which has so many blocks of this size.
    pub fn map(socket: BorrowedFd<'_>, block_size: usize, blocks: usize) -> io::Result<RingMemory> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let (address, length) = (std::ptr::null_mut(), block_size * blocks);
        // SAFETY: the kernel chooses the address, so no memory of the program is replaced.
        let start = unsafe { libc::mmap(address, length, access, flags, socket.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("no address"))?;
        Ok(RingMemory { start, block_size, blocks, next: 0 })
    }

    /// Whether the kernel has filled the next block.
    pub fn is_filled(&self) -> bool {
        let (_, status) = self.next_block();
        status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The start of the next block, and its status.
    fn next_block(&self) -> (NonNull<u8>, &AtomicU32) {
        let offset = offset_of!(libc::tpacket_block_desc, hdr)
            + offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: the block is in the memory, and its status is a number of 4 bytes that begins at
        // a multiple of them. The kernel changes it as a whole.
        unsafe {
            let start = self.start.add(self.next * self.block_size);
            (start, AtomicU32::from_ptr(start.add(offset).cast().as_ptr()))
        }
    }

    /// Reads the next block, if the kernel has filled it, and gives it back.
    pub fn read<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if !self.is_filled() {
            return None;
        }
        let (start, status) = self.next_block();
        // SAFETY: the kernel has filled the block, and writes to it again only after its status
        // says that it may, which is set when nobody has the slice any more.
        let result = read(unsafe { std::slice::from_raw_parts(start.as_ptr(), self.block_size) });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Some(result)
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        let (start, length) = (self.start.as_ptr().cast(), self.block_size * self.blocks);
        // SAFETY: this is what was mapped, and nobody has a part of it any more.
        unsafe { libc::munmap(start, length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_of_the_kernel_fits_with_its_prefixes() {
        let ring = 128 << 10;
        let messages = ring / 32;
        let around = "<191>[123456.123456] \n".len();
        assert!(text_size(ring) >= ring + messages * around);
        assert_eq!(text_size(1 << 30), MAX_KERNEL_LOG);
    }
}
