//! One question to one server, over the crate `sntpc`, which builds the question and checks the answer as RFC 5905, A.5.1.1, and
//! RFC 4330, section 5, say: origin timestamp, mode, version, leap indicator, stratum, transmit timestamp, root distance.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sntpc::sync::{sntp_process_response, sntp_send_request};
use sntpc::{Error, KissOfDeathCode, NtpContext, NtpUdpSocket, StdTimestampGen};

use crate::discipline::Sample;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer that was under way for longer says too little: its offset can be wrong by half of that.
const LONGEST_DELAY: u64 = 1_500_000;

/// Why there is no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server does not want to be asked at all.
    Denied,
    /// The server wants to be asked less often.
    TooOften,
    /// Anything else, in words.
    Unusable(&'static str),
}

/// Asks a server for the time.
pub fn ask(server: SocketAddr) -> Result<Sample, Refusal> {
    let socket = connect(server).map_err(|_| Refusal::Unusable("cannot be reached"))?;
    let socket = Connected { socket, server };
    let context = NtpContext::new(StdTimestampGen::default());
    let asked = Instant::now();
    let question = sntp_send_request(server, &socket, context).map_err(refusal)?;
    loop {
        match sntp_process_response(server, &socket, context, question) {
            Ok(answer) if answer.roundtrip() > LONGEST_DELAY => return Err(Refusal::Unusable("its answer took too long")),
            Ok(answer) => {
                return Ok(Sample { offset: answer.offset(), delay: answer.roundtrip(), stratum: answer.stratum() });
            }
            // Not an answer to this question: the real one may still come.
            Err(Error::IncorrectOriginTimestamp | Error::IncorrectPayload) if asked.elapsed() < PATIENCE => {}
            Err(error) => return Err(refusal(error)),
        }
    }
}

/// A socket of a fresh port, which answers from elsewhere do not reach.
fn connect(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(server)?;
    Ok(socket)
}

fn refusal(error: Error) -> Refusal {
    Refusal::Unusable(match error {
        Error::KissOfDeath(KissOfDeathCode::Deny | KissOfDeathCode::Rstr) => return Refusal::Denied,
        Error::KissOfDeath(KissOfDeathCode::Rate) => return Refusal::TooOften,
        Error::KissOfDeath(_) => "it does not serve time",
        Error::UnsynchronizedClock => "it does not know the time itself",
        Error::ExcessiveRootDistance => "it is too far from a reference clock",
        Error::Network => "there is no answer",
        _ => "its answer makes no sense",
    })
}

/// The socket as `sntpc` wants it. It blocks, so the futures are ready when they are made.
struct Connected {
    socket: UdpSocket,
    server: SocketAddr,
}

impl NtpUdpSocket for Connected {
    async fn send_to(&self, bytes: &[u8], _: SocketAddr) -> sntpc::Result<usize> {
        self.socket.send(bytes).map_err(|_| Error::Network)
    }

    async fn recv_from(&self, bytes: &mut [u8]) -> sntpc::Result<(usize, SocketAddr)> {
        // A connected socket hears from nobody else.
        self.socket.recv(bytes).map(|length| (length, self.server)).map_err(|_| Error::Network)
    }
}
