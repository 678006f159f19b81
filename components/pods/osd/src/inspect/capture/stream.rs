//! The packets of a capture, sent to a client as long as it takes them.

use super::link;
use super::request::Request;
use super::ring;
use super::socket::{BLOCK_MILLISECONDS, CaptureSocket};
use osbuild_cosi::v1::{CaptureResponse, CapturedPacket};
use osbuild_packet_filter::Framing;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Status;

/// The time between two looks at what was dropped, and whether the link is still there.
const LOOK: Duration = Duration::from_secs(1);

/// The bytes of packets in a message, beyond which another one begins.
const PART: usize = 64 << 10;

/// Where the packets go.
type To = Sender<Result<CaptureResponse, Status>>;

/// A capture that runs.
struct Capture<'a> {
    request: &'a Request,
    socket: CaptureSocket,
    to: &'a To,
    captured: u64,
    /// The counters that the client has.
    sent: (u64, u64),
}

/// Why a capture ends.
enum End {
    /// There is nobody to take packets.
    ClientGone,
    /// It has all that was asked for.
    Done,
    /// It cannot go on.
    Failed(Status),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Failed(Status::internal(format!("cannot capture: {error}")))
    }
}

/// Sends what the socket captures until the request is fulfilled or nobody takes it.
pub async fn run(request: &Request, socket: CaptureSocket, to: &To) {
    let mut capture = Capture { request, socket, to, captured: 0, sent: (0, 0) };
    if let Err(End::Failed(status)) = capture.until_end().await {
        let _ = to.send(Err(status)).await;
    }
}

impl Capture<'_> {
    async fn until_end(&mut self) -> Result<Infallible, End> {
        let links = self.request.links.clone();
        self.send(CaptureResponse { links, ..CaptureResponse::default() }).await?;
        let end = self.request.time.and_then(|time| Instant::now().checked_add(time));
        let mut look = Instant::now() + LOOK;
        loop {
            let is_over = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.to.closed() => return Err(End::ClientGone),
                () = is_over => break,
                () = sleep_until(look) => {
                    look = Instant::now() + LOOK;
                    self.look().await?;
                }
                filled = self.socket.filled() => filled?,
            }
            self.read_block().await?;
        }
        Err(self.last_packets().await)
    }

    /// Sends what came until now, some of which is in a block that the kernel still fills.
    async fn last_packets(&mut self) -> End {
        sleep(Duration::from_millis(2 * u64::from(BLOCK_MILLISECONDS))).await;
        loop {
            match self.read_block().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(end) => return end,
            }
        }
        match self.look().await {
            Ok(()) => End::Done,
            Err(end) => end,
        }
    }

    /// Sends the packets of the next block. Returns whether there was one.
    async fn read_block(&mut self) -> Result<bool, End> {
        let framing = self.request.framing;
        let rest = self.request.count.map_or(u64::MAX, |count| count - self.captured);
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        let parts = self.socket.read_block(|block| parts(ring::packets(block, framing).take(rest)));
        let Some(parts) = parts else { return Ok(false) };
        for packets in parts {
            self.captured += packets.len() as u64;
            self.send(CaptureResponse { packets, ..CaptureResponse::default() }).await?;
        }
        match self.request.count {
            Some(count) if self.captured >= count => Err(End::Done),
            _ => Ok(true),
        }
    }

    /// Sends the counters if the client has others, and ends if the link is gone.
    async fn look(&mut self) -> Result<(), End> {
        let counters = (self.captured, self.socket.dropped()?);
        if counters != self.sent {
            self.send(CaptureResponse::default()).await?;
        }
        let Some(wanted) = &self.request.link else { return Ok(()) };
        match link::all()?.contains(wanted) {
            true => Ok(()),
            false => {
                let gone = format!("the link `{}` is gone", wanted.name);
                Err(End::Failed(Status::failed_precondition(gone)))
            }
        }
    }

    /// Sends a message with the counters, and waits until there is room for it. Meanwhile the
    /// kernel fills the ring, and drops and counts what does not fit.
    async fn send(&mut self, response: CaptureResponse) -> Result<(), End> {
        self.sent = (self.captured, self.socket.dropped()?);
        let (captured, dropped) = self.sent;
        let link_type = link_type(self.request.framing);
        let response = CaptureResponse { captured, dropped, link_type, ..response };
        self.to.send(Ok(response)).await.map_err(|_| End::ClientGone)
    }
}

/// The number of what the packets begin with (LINKTYPE_…).
fn link_type(framing: Framing) -> u32 {
    match framing {
        Framing::Ethernet => 1,
        Framing::Cooked => 276,
    }
}

/// The packets, as many together as are in one message.
fn parts(packets: impl Iterator<Item = CapturedPacket>) -> Vec<Vec<CapturedPacket>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
    for packet in packets {
        bytes += packet.data.len();
        part.push(packet);
        if bytes >= PART {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
