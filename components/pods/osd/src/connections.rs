//! The connections of clients, whose number is limited, and those over the Unix socket.

use crate::access::Caller;
use crate::limits::MAX_CONNECTIONS;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;
use tonic::transport::server::Connected;

/// The pause after a connection that could not be accepted, as the next one may fail likewise.
pub const PAUSE: Duration = Duration::from_millis(100);

/// A connection that counts until it is closed.
pub struct Connection {
    stream: Pin<Box<dyn Duplex>>,
    peer: Peer,
    _permit: OwnedSemaphorePermit,
}

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

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

/// Prints why a connection was not accepted.
pub fn report(error: &io::Error) {
    eprintln!("error: cannot accept a connection: {error}");
}

impl Connection {
    /// A connection that takes a place until it is closed.
    pub fn new(
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
