//! When the connection of a client on the network ends by itself.

use super::authentication::Proof;
use super::record;
use crate::limits::HANDSHAKE_TIMEOUT;
use osbuild_failure::Failure;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The shortest and the longest time until the end of a proof is looked at again.
const MIN_ALARM: Duration = Duration::from_millis(10);
const MAX_ALARM: Duration = Duration::from_secs(86_400);

/// Ends with the reason why a client is excluded.
pub type Exclusion = Pin<Box<dyn Future<Output = &'static str> + Send>>;

/// A stream that fails if its client makes no call in time, and once its certificate or its last
/// token has expired or it is excluded. The clock is read at each use, as it may be set at any
/// time; HTTP/2 uses an idle stream every half minute, and an alarm when the end comes.
pub struct Expiring<S> {
    stream: S,
    /// The address of the client, and its proof of who it is.
    from: SocketAddr,
    proof: Proof,
    /// Until the first call.
    deadline: Option<Pin<Box<Sleep>>>,
    excluded: Exclusion,
    /// At the end of the proof, by the clock of the last use.
    alarm: Pin<Box<Sleep>>,
    /// Why it fails.
    ended: Option<&'static str>,
}

impl<S> Expiring<S> {
    /// The stream of a client that lasts as long as its proof, unless `excluded` ends before.
    pub fn new(stream: S, from: SocketAddr, proof: Proof, excluded: Exclusion) -> Expiring<S> {
        let deadline = Some(Box::pin(sleep(HANDSHAKE_TIMEOUT)));
        let alarm = Box::pin(sleep(HANDSHAKE_TIMEOUT));
        Expiring { stream, from, proof, deadline, excluded, alarm, ended: None }
    }

    /// Fails once the stream has ended.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(reason) = self.ended {
            return self.end(reason);
        }
        if let Poll::Ready(reason) = self.excluded.as_mut().poll(context) {
            return self.end(reason);
        }
        let now = SystemTime::now();
        if let Some(reason) = self.proof.expired(now) {
            return self.end(reason);
        }
        if let Some(left) = self.proof.end().and_then(|end| end.duration_since(now).ok()) {
            let left = left.clamp(MIN_ALARM, MAX_ALARM);
            self.alarm.as_mut().reset(Instant::now() + left);
            // The next use finds out what has become of the clock.
            if self.alarm.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
        if self.deadline.is_some() && self.proof.has_called() {
            self.deadline = None;
        }
        match self.deadline.as_mut().map(|deadline| deadline.as_mut().poll(context)) {
            Some(Poll::Ready(())) => self.end("it makes no call"),
            Some(Poll::Pending) | None => Ok(()),
        }
    }

    fn end(&mut self, reason: &'static str) -> io::Result<()> {
        if self.ended.replace(reason).is_none() {
            let (caller, from) = (self.proof.caller(), self.from);
            match caller.is_unknown() {
                true => record::refused(&Failure::new(format!("{from}: {reason}"))),
                false => {
                    record::write(&format!("connection: closed: {caller} from {from}: {reason}"))
                }
            }
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
    use crate::access::authentication::CertificateProof;
    use crate::access::quota::Quotas;
    use crate::access::{Caller, Role};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    fn stream(lasts: Duration) -> (DuplexStream, Expiring<DuplexStream>, Arc<CertificateProof>) {
        let (client, server) = tokio::io::duplex(64);
        let proof = Arc::new(CertificateProof {
            caller: Arc::new(Caller::with_role("alice", Role::Reader)),
            quota: Quotas::default().of([0; 32]),
            not_after: SystemTime::now() + lasts,
            has_called: AtomicBool::new(false),
        });
        let never = Box::pin(std::future::pending());
        let from = "127.0.0.1:1".parse().unwrap();
        let server = Expiring::new(server, from, Proof::Certificate(proof.clone()), never);
        (client, server, proof)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_a_call_ends() {
        let day = Duration::from_secs(86_400);
        let (_client, mut server, _) = stream(day);
        let read = server.read_u8().await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);

        let (mut client, mut server, proof) = stream(day);
        client.write_u8(7).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), 7);
        proof.has_called.store(true, Ordering::Relaxed);
        let later = async {
            sleep(2 * HANDSHAKE_TIMEOUT).await;
            client.write_u8(8).await.unwrap();
        };
        assert_eq!(tokio::join!(server.read_u8(), later).0.unwrap(), 8);
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_certificate() {
        let (mut client, mut server, proof) = stream(Duration::from_millis(200));
        proof.has_called.store(true, Ordering::Relaxed);
        client.write_u8(7).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), 7);
        sleep(Duration::from_millis(250)).await;
        client.write_u8(8).await.unwrap();
        assert!(server.read_u8().await.is_err());
        assert!(server.write_u8(9).await.is_err());
    }

    #[tokio::test]
    async fn a_silent_stream_ends_with_its_certificate_too() {
        let (_client, mut server, proof) = stream(Duration::from_millis(200));
        proof.has_called.store(true, Ordering::Relaxed);
        let read = tokio::time::timeout(Duration::from_secs(5), server.read_u8()).await;
        assert!(read.expect("the alarm has ended it").is_err());
    }
}
