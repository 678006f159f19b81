//! A TUF transport that gives up on slow servers.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_stream::Stream;
use tough::{
    DefaultTransport, HttpTransportBuilder, Transport, TransportError, TransportErrorKind,
    TransportStream,
};
use url::Url;

/// How fast a server must be.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How far a file may lag behind the rate: time to connect, to respond, to pause.
    pub grace: Duration,
    /// The minimum average rate.
    pub bytes_per_s: u64,
}

impl Pace {
    /// For a node with a slow connection: 16 KiB per second, and a minute.
    pub const DEFAULT: Pace = Pace { grace: Duration::from_secs(60), bytes_per_s: 16 << 10 };
}

/// The wait before a request; `tough` waits before the first one too. Each retry multiplies it by
/// `BACKOFF_FACTOR`.
const INITIAL_BACKOFF: Duration = Duration::from_millis(1);
const BACKOFF_FACTOR: f32 = 100.0;

/// How often a file, or the rest of it, is requested before the check fails.
const TRIES: u32 = 3;

/// The time limit of a file, whatever its size.
const MAX_TIME: Duration = Duration::from_secs(6 * 3600);

/// Fetches over HTTP and HTTPS and from files, and enforces a pace.
#[derive(Clone, Debug)]
pub struct Paced {
    transport: DefaultTransport,
    pace: Pace,
}

impl Paced {
    /// Creates a transport that enforces this pace.
    pub fn new(pace: Pace) -> Paced {
        let http = HttpTransportBuilder::new().timeout(MAX_TIME).connect_timeout(pace.grace);
        let http =
            http.tries(TRIES).initial_backoff(INITIAL_BACKOFF).backoff_factor(BACKOFF_FACTOR);
        Paced { transport: DefaultTransport::new_with_http_settings(http), pace }
    }
}

#[async_trait]
impl Transport for Paced {
    async fn fetch(&self, url: Url) -> Result<TransportStream, TransportError> {
        // Opening a FIFO in a repository's folder would block forever.
        if url.to_file_path().is_ok_and(|path| path.metadata().is_ok_and(|found| !found.is_file()))
        {
            return Err(TransportError::new_with_cause(
                TransportErrorKind::Other,
                &url,
                "it is not a regular file",
            ));
        }
        let started = Instant::now();
        let stream = self.transport.fetch(url.clone()).await?;
        let end = Box::pin(sleep_until(started + self.pace.grace));
        Ok(Box::pin(PacedStream { stream, url, pace: self.pace, started, received: 0, end }))
    }
}

/// A file that is being received, until its pace falls below the limit.
struct PacedStream {
    stream: TransportStream,
    url: Url,
    pace: Pace,
    started: Instant,
    received: u64,
    end: Pin<Box<Sleep>>,
}

impl Stream for PacedStream {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.as_mut().poll(context).is_ready() {
            let cause = format!("it sends less than {} bytes per second", self.pace.bytes_per_s);
            return Poll::Ready(Some(Err(TransportError::new_with_cause(
                TransportErrorKind::Other,
                &self.url,
                cause,
            ))));
        }
        let next = self.stream.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(bytes))) = &next {
            self.received += bytes.len() as u64;
            let rate = self.pace.bytes_per_s as f64;
            let allowed = Duration::from_secs_f64(self.received as f64 / rate);
            let end = self.started + (self.pace.grace + allowed).min(MAX_TIME);
            self.end.as_mut().reset(end);
        }
        next
    }
}
