//! One query of one server with the crate `sntpc`, which makes the request and checks the answer
//! according to RFC 5905, A.5.1.1, and RFC 4330, section 5: origin timestamp, mode, version, leap
//! indicator, stratum, transmit timestamp, root distance.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sntpc::sync::{sntp_process_response, sntp_send_request};
use sntpc::{Error, KissOfDeathCode, NtpContext, NtpUdpSocket, StdTimestampGen};

use crate::agreement::Sample;

/// The timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest accepted round trip: the offset can be wrong by half of it.
const MAX_DELAY: u64 = 1_500_000;

/// Why there is no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server refuses all queries.
    Denied,
    /// The server asks for fewer queries.
    TooOften,
    /// Any other reason, in words.
    Unusable(&'static str),
}

/// A socket that exchanges datagrams with one server only.
pub trait Datagrams {
    /// Sends a datagram.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Waits for a datagram, for [`ask`] no longer than two seconds. Returns its length, or as much
    /// of it as there is room for.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Datagrams for UdpSocket {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        UdpSocket::send(self, bytes)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

/// Queries a server for the time.
pub fn ask(server: SocketAddr) -> Result<Sample, Refusal> {
    let socket = connect(server).map_err(|_| Refusal::Unusable("cannot be reached"))?;
    ask_over(&socket, server)
}

/// Queries a server over this socket.
pub fn ask_over(socket: &impl Datagrams, server: SocketAddr) -> Result<Sample, Refusal> {
    let socket = Connected { socket, server };
    let context = NtpContext::new(StdTimestampGen::default());
    let asked = Instant::now();
    let question = sntp_send_request(server, &socket, context).map_err(refusal)?;
    loop {
        match sntp_process_response(server, &socket, context, question) {
            Ok(answer) if answer.roundtrip() > MAX_DELAY => {
                return Err(Refusal::Unusable("its response took too long"));
            }
            Ok(answer) => {
                let root_distance =
                    microseconds(answer.root_delay / 2) + microseconds(answer.root_dispersion);
                return Ok(Sample {
                    offset: answer.offset(),
                    delay: answer.roundtrip(),
                    root_distance,
                    stratum: answer.stratum(),
                });
            }
            // Not an answer to this query: the real one may still come.
            Err(Error::IncorrectOriginTimestamp | Error::IncorrectPayload)
                if asked.elapsed() < TIMEOUT => {}
            Err(error) => return Err(refusal(error)),
        }
    }
}

/// Converts NTP's short format, seconds with sixteen fractional bits, to microseconds.
fn microseconds(short: u32) -> u64 {
    (u64::from(short) * 1_000_000) >> 16
}

/// Opens a socket with a new port, which receives answers from this server only.
fn connect(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(server)?;
    Ok(socket)
}

fn refusal(error: Error) -> Refusal {
    Refusal::Unusable(match error {
        Error::KissOfDeath(KissOfDeathCode::Deny | KissOfDeathCode::Rstr) => {
            return Refusal::Denied;
        }
        Error::KissOfDeath(KissOfDeathCode::Rate) => return Refusal::TooOften,
        Error::KissOfDeath(_) => "it does not serve time",
        Error::UnsynchronizedClock => "it does not know the time itself",
        Error::ExcessiveRootDistance => "it is too far from a reference clock",
        Error::Network => "there is no response",
        _ => "its response is invalid",
    })
}

/// The socket for `sntpc`. It blocks, so its futures are always ready.
struct Connected<'a, S> {
    socket: &'a S,
    server: SocketAddr,
}

impl<S: Datagrams> NtpUdpSocket for Connected<'_, S> {
    async fn send_to(&self, bytes: &[u8], _: SocketAddr) -> sntpc::Result<usize> {
        self.socket.send(bytes).map_err(|_| Error::Network)
    }

    async fn recv_from(&self, bytes: &mut [u8]) -> sntpc::Result<(usize, SocketAddr)> {
        self.socket.receive(bytes).map(|length| (length, self.server)).map_err(|_| Error::Network)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;

    /// A server that sends the same bytes repeatedly, with the query's timestamp where an answer
    /// copies it; then nothing.
    struct Liar {
        bytes: Vec<u8>,
        origin: RefCell<Vec<u8>>,
        times: RefCell<u32>,
    }

    impl Datagrams for Liar {
        fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            self.origin.replace(bytes[40..48].to_vec());
            Ok(bytes.len())
        }

        fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
            *self.times.borrow_mut() += 1;
            if *self.times.borrow() > 3 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let length = self.bytes.len().min(buffer.len());
            buffer[..length].copy_from_slice(&self.bytes[..length]);
            if length >= 32 {
                buffer[24..32].copy_from_slice(&self.origin.borrow());
            }
            Ok(length)
        }
    }

    fn server() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 123).into()
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(
            first in prop_oneof![Just(0x24), any::<u8>()],
            stratum in 0..17u8,
            rest: [[u8; 23]; 2],
        ) {
            let bytes = [vec![first, stratum], rest.concat()].concat();
            let (origin, times) = (RefCell::default(), RefCell::default());
            let _ = ask_over(&Liar { bytes, origin, times }, server());
        }

        #[test]
        fn any_short_answer_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            let liar = Liar { bytes, origin: RefCell::default(), times: RefCell::default() };
            prop_assert!(ask_over(&liar, server()).is_err());
        }
    }
}
