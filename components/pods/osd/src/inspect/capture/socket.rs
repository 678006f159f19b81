//! A socket that captures packets.

use super::super::sys::{self, RingMemory};
use super::request::Request;
use osbuild_packet_filter::{Framing, Instruction};
use socket2::{Domain, SockFilter, Socket, Type};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tonic::Status;

/// The size of a block of the ring, and how many there are. A block holds the greatest packet.
const BLOCK: usize = 512 << 10;
const BLOCKS: usize = 8;

/// The bytes in which the kernel counts a block (packet(7)); with this version of the ring it
/// matters for nothing else.
const FRAME: usize = 2048;

/// After how many milliseconds the kernel hands over a block that is not full.
pub const BLOCK_MILLISECONDS: u32 = 100;

/// `TPACKET_V3`
const VERSION: i32 = libc::tpacket_versions::TPACKET_V3 as i32;

/// A socket that captures packets.
pub struct CaptureSocket {
    /// Dropped before the socket.
    ring: RingMemory,
    /// A socket of datagrams is one, whichever its protocol is.
    socket: UdpSocket,
    /// How many packets it has dropped.
    dropped: u64,
}

impl CaptureSocket {
    /// Opens a socket, which begins to capture when it has its filter. There has to be a runtime.
    pub fn open(request: &Request) -> Result<CaptureSocket, Status> {
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Status::failed_precondition("`inspect` lacks the capability `NET_RAW`")
            }
            _ => Status::internal(format!("cannot capture: {error}")),
        };
        let kind = match request.framing {
            Framing::Ethernet => Type::RAW,
            Framing::Cooked => Type::DGRAM,
        };
        // Without a protocol it gets no packets.
        let socket = Socket::new(Domain::PACKET, kind.nonblocking(), None).map_err(failed)?;
        filter(&socket, &request.program)?;
        let ring = ring(&socket).map_err(failed)?;
        let index = request.link.as_ref().map_or(0, |link| link.index);
        if request.is_promiscuous {
            sys::set_promiscuous(socket.as_fd(), index).map_err(failed)?;
        }
        let all = sys::link_address(index, libc::ETH_P_ALL as u16).map_err(failed)?;
        socket.bind(&all).map_err(failed)?;
        let socket = UdpSocket::from_std(socket.into()).map_err(failed)?;
        Ok(CaptureSocket { ring, socket, dropped: 0 })
    }

    /// Waits until the kernel has filled the next block.
    pub async fn filled(&self) -> io::Result<()> {
        let filled = || match self.ring.is_filled() {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        };
        self.socket.async_io(Interest::READABLE, filled).await
    }

    /// Reads the next block that the kernel has filled. Nothing if there is none yet.
    pub fn read_block<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.ring.read(read)
    }

    /// How many packets there was no room for, so far.
    pub fn dropped(&mut self) -> io::Result<u64> {
        self.dropped += u64::from(sys::packet_counters(self.socket.as_fd())?.dropped);
        Ok(self.dropped)
    }
}

/// Attaches the program, which the kernel checks.
fn filter(socket: &Socket, program: &[Instruction]) -> Result<(), Status> {
    let instruction = |one: &Instruction| SockFilter::new(one.code, one.yes, one.no, one.value);
    let program: Vec<SockFilter> = program.iter().map(instruction).collect();
    socket.attach_filter(&program).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOMEM) => Status::invalid_argument(format!(
            "the filter is too long for the kernel: it has {} instructions",
            program.len()
        )),
        _ => Status::internal(format!("the kernel refuses the filter: {error}")),
    })
}

fn ring(socket: &Socket) -> io::Result<RingMemory> {
    let ring = libc::tpacket_req3 {
        tp_block_size: BLOCK as u32,
        tp_block_nr: BLOCKS as u32,
        tp_frame_size: FRAME as u32,
        tp_frame_nr: (BLOCK / FRAME * BLOCKS) as u32,
        tp_retire_blk_tov: BLOCK_MILLISECONDS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    sys::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VERSION, VERSION)?;
    sys::set_ring(socket.as_fd(), &ring)?;
    RingMemory::map(socket.as_fd(), BLOCK, BLOCKS)
}
