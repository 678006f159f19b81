//! The connections of clients, whose number is limited: those over the Unix socket, and those over
//! TLS, whose callers their certificates name.

use crate::access::{Caller, record};
use crate::limits::{HANDSHAKE_TIMEOUT, MAX_CONNECTIONS, MAX_REMOTE_CONNECTIONS};
use osbuild_failure::{Explain, Failure, Outcome};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;

/// The pause after a connection that could not be accepted, as the next one may fail likewise.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that counts until it is closed.
pub struct Connection {
    stream: Pin<Box<dyn Duplex>>,
    peer: Peer,
    _permit: OwnedSemaphorePermit,
}

trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// The other side of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Who it is.
    pub caller: Arc<Caller>,
    /// When the connection was opened.
    pub opened: Instant,
}

/// Where accepted connections go.
pub type Accepted = mpsc::Sender<Connection>;

/// Accepts the connections of local clients. One too many is closed at once. There has to be a
/// runtime.
pub fn local(listener: UnixListener, to: Accepted) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    tokio::spawn(async move {
        let caller = Arc::new(Caller::local());
        loop {
            let accepted = listener.accept().await;
            let Ok((stream, _)) = accepted.inspect_err(report) else {
                sleep(PAUSE).await;
                continue;
            };
            let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
            let connection = Connection::new(stream, caller.clone(), permit);
            if to.send(connection).await.is_err() {
                return;
            }
        }
    });
}

/// Accepts the connections of clients that have a certificate. One too many is closed at once; one
/// whose handshake is not finished counts. They take no places of local clients. There has to be a
/// runtime.
pub fn remote(listener: TcpListener, tls: TlsAcceptor, to: Accepted) {
    let permits = Arc::new(Semaphore::new(MAX_REMOTE_CONNECTIONS));
    tokio::spawn(async move {
        loop {
            let accepted = listener.accept().await;
            let Ok((stream, _)) = accepted.inspect_err(report) else {
                sleep(PAUSE).await;
                continue;
            };
            let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
            let (tls, to) = (tls.clone(), to.clone());
            tokio::spawn(async move {
                let shaken = timeout(HANDSHAKE_TIMEOUT, shake_hands(stream, &tls, permit)).await;
                match shaken.unwrap_or_else(|_| Err(Failure::new("it takes too long"))) {
                    // The server ends together with the process.
                    Ok(connection) => drop(to.send(connection).await),
                    Err(failure) => record::refused(&failure),
                }
            });
        }
    });
}

async fn shake_hands(
    stream: TcpStream,
    tls: &TlsAcceptor,
    permit: OwnedSemaphorePermit,
) -> Outcome<Connection> {
    stream.set_nodelay(true).explain("configure a connection")?;
    let from = stream.peer_addr().explain("read an address")?;
    let stream = tls.accept(stream).await.explain(from)?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.ok_or_else(|| Failure::new("a client has no certificate"))?;
    let caller = Caller::of_certificate(certificate)?;
    record::connected(&caller, from);
    Ok(Connection::new(stream, Arc::new(caller), permit))
}

fn report(error: &io::Error) {
    eprintln!("error: cannot accept a connection: {error}");
}

impl Connection {
    fn new(
        stream: impl Duplex + 'static,
        caller: Arc<Caller>,
        permit: OwnedSemaphorePermit,
    ) -> Connection {
        let peer = Peer { caller, opened: Instant::now() };
        Connection { stream: Box::pin(stream), peer, _permit: permit }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
