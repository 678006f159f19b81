//! A transport that gives up on servers that keep it waiting.

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

/// How much a server has to send.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a file may take besides what its bytes take: to connect, to answer, to pause.
    pub grace: Duration,
    /// The bytes a second that come on average at least.
    pub least: u64,
}

impl Pace {
    /// For a node at the end of a bad line: 16 KiB a second, and a minute.
    pub const USUAL: Pace = Pace { grace: Duration::from_secs(60), least: 16 << 10 };
}

/// How long to wait before a file is asked for, which `tough` does the first time as well, and how
/// many times as long before each other try.
const WAIT: Duration = Duration::from_millis(1);
const LONGER: f32 = 100.0;

/// How often a file, or the rest of it, is asked for again before this look has failed.
const TRIES: u32 = 3;

/// No file takes longer, whatever its pace.
const MAX_TIME: Duration = Duration::from_secs(6 * 3600);

/// Fetches by HTTP, HTTPS and from files, at a pace.
#[derive(Clone, Debug)]
pub struct Paced {
    transport: DefaultTransport,
    pace: Pace,
}

impl Paced {
    /// Fetches at this pace.
    pub fn new(pace: Pace) -> Paced {
        let http = HttpTransportBuilder::new().timeout(MAX_TIME).connect_timeout(pace.grace);
        let http = http.tries(TRIES).initial_backoff(WAIT).backoff_factor(LONGER);
        Paced { transport: DefaultTransport::new_with_http_settings(http), pace }
    }
}

#[async_trait]
impl Transport for Paced {
    async fn fetch(&self, url: Url) -> Result<TransportStream, TransportError> {
        // Whoever opens a FIFO in the folder of a repository waits for ever.
        if url.to_file_path().is_ok_and(|path| path.metadata().is_ok_and(|found| !found.is_file()))
        {
            return Err(TransportError::new_with_cause(
                TransportErrorKind::Other,
                &url,
                "it is no file",
            ));
        }
        let started = Instant::now();
        let stream = self.transport.fetch(url.clone()).await?;
        let end = Box::pin(sleep_until(started + self.pace.grace));
        Ok(Box::pin(Watched { stream, url, pace: self.pace, started, received: 0, end }))
    }
}

/// A file that is coming.
struct Watched {
    stream: TransportStream,
    url: Url,
    pace: Pace,
    started: Instant,
    received: u64,
    end: Pin<Box<Sleep>>,
}

impl Stream for Watched {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.as_mut().poll(context).is_ready() {
            let cause = format!("it sends less than {} bytes a second", self.pace.least);
            return Poll::Ready(Some(Err(TransportError::new_with_cause(
                TransportErrorKind::Other,
                &self.url,
                cause,
            ))));
        }
        let next = self.stream.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(bytes))) = &next {
            self.received += bytes.len() as u64;
            let earned = Duration::from_secs_f64(self.received as f64 / self.pace.least as f64);
            let end = self.started + (self.pace.grace + earned).min(MAX_TIME);
            self.end.as_mut().reset(end);
        }
        next
    }
}
