//! When the connection of a client on the network ends by itself.

use super::record;
use crate::limits::HANDSHAKE_TIMEOUT;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Ends with the reason why a client is excluded.
pub type Exclusion = Pin<Box<dyn Future<Output = &'static str> + Send>>;

/// A stream that fails if its client makes no call in time, and once its certificate has expired or
/// it is excluded. The clock is read at each use, as it may be set at any time; HTTP/2 uses an idle
/// stream every half minute.
pub struct Expiring<S> {
    stream: S,
    /// The client's name in the record.
    client: String,
    /// Until the first call.
    deadline: Option<Pin<Box<Sleep>>>,
    has_called: Arc<AtomicBool>,
    not_after: SystemTime,
    excluded: Exclusion,
    /// Why it fails.
    ended: Option<&'static str>,
}

impl<S> Expiring<S> {
    /// The stream of a client with a certificate that is good until `not_after`, unless `excluded`
    /// ends before. Somebody sets `has_called` at the first call.
    pub fn new(
        stream: S,
        client: String,
        has_called: Arc<AtomicBool>,
        not_after: SystemTime,
        excluded: Exclusion,
    ) -> Expiring<S> {
        let deadline = Some(Box::pin(sleep(HANDSHAKE_TIMEOUT)));
        Expiring { stream, client, deadline, has_called, not_after, excluded, ended: None }
    }

    /// Fails once the stream has ended.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(reason) = self.ended {
            return self.end(reason);
        }
        if let Poll::Ready(reason) = self.excluded.as_mut().poll(context) {
            return self.end(reason);
        }
        if SystemTime::now() > self.not_after {
            return self.end("its certificate has expired");
        }
        if self.has_called.load(Ordering::Relaxed) {
            self.deadline = None;
        }
        match self.deadline.as_mut().map(|deadline| deadline.as_mut().poll(context)) {
            Some(Poll::Ready(())) => self.end("it makes no call"),
            Some(Poll::Pending) | None => Ok(()),
        }
    }

    fn end(&mut self, reason: &'static str) -> io::Result<()> {
        if self.ended.replace(reason).is_none() {
            record::write(&format!("connection: closed: {}: {reason}", self.client));
        }
        Err(io::Error::new(ErrorKind::TimedOut, reason))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Expiring<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Expiring<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    fn stream(lasts: Duration) -> (DuplexStream, Expiring<DuplexStream>, Arc<AtomicBool>) {
        let (client, server) = tokio::io::duplex(64);
        let has_called = Arc::new(AtomicBool::new(false));
        let end = SystemTime::now() + lasts;
        let never = Box::pin(std::future::pending());
        let server = Expiring::new(server, "a test".to_owned(), has_called.clone(), end, never);
        (client, server, has_called)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_a_call_ends() {
        let day = Duration::from_secs(86_400);
        let (_client, mut server, _) = stream(day);
        let read = server.read_u8().await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);

        let (mut client, mut server, has_called) = stream(day);
        client.write_u8(7).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), 7);
        has_called.store(true, Ordering::Relaxed);
        let later = async {
            sleep(2 * HANDSHAKE_TIMEOUT).await;
            client.write_u8(8).await.unwrap();
        };
        assert_eq!(tokio::join!(server.read_u8(), later).0.unwrap(), 8);
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_certificate() {
        let (mut client, mut server, has_called) = stream(Duration::from_millis(200));
        has_called.store(true, Ordering::Relaxed);
        client.write_u8(7).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), 7);
        sleep(Duration::from_millis(250)).await;
        client.write_u8(8).await.unwrap();
        assert!(server.read_u8().await.is_err());
        assert!(server.write_u8(9).await.is_err());
    }
}
