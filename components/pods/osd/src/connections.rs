//! The connections of clients, whose number is limited, and those over the Unix socket.

use crate::access::Caller;
use crate::access::authentication::Proof;
use crate::access::quota::Held;
use crate::access::rules::Rules;
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
use tonic::Status;
use tonic::transport::server::Connected;

/// The pause after a connection that could not be accepted, as the next one may fail likewise.
pub const PAUSE: Duration = Duration::from_millis(100);

/// A connection that has its place until it is closed.
pub struct Connection<P = Peer, Place = Places> {
    stream: Pin<Box<dyn Duplex>>,
    peer: P,
    _place: Place,
}

/// The places that a connection takes.
pub struct Places {
    /// That of its side, the node or the network.
    pub of_side: OwnedSemaphorePermit,
    /// That of its caller, if its number is limited.
    pub of_caller: Option<Held>,
}

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// The other side of a connection.
#[derive(Clone)]
pub struct Peer {
    /// The program or person on that side, and its rights. A client with tokens is nobody before
    /// its call is authenticated.
    pub caller: Arc<Caller>,
    /// When the connection was opened.
    pub opened: Instant,
    /// The connection's proof, rules and addresses, if the client is on the network.
    pub remote: Option<RemotePeer>,
}

/// A client on the network.
#[derive(Clone)]
pub struct RemotePeer {
    /// The client's proof of who it is.
    pub proof: Proof,
    /// The rules, which may exclude the client at any time.
    pub rules: Arc<Rules>,
    /// The addresses of both ends.
    pub connection: osbuild_packet_filter::Connection,
}

impl Peer {
    /// Refuses a client that has been excluded, or whose role has changed, since it has connected.
    pub fn check(&self) -> Result<(), Status> {
        match self.remote.as_ref().and_then(|remote| remote.rules.refusal(&self.caller)) {
            Some(reason) => Err(Status::permission_denied(format!("{}: {reason}", self.caller))),
            None => Ok(()),
        }
    }
}

/// Where accepted connections go.
pub type Accepted = mpsc::Sender<Connection>;

/// Accepted connections. What HTTP/2 allows differs.
pub struct Connections {
    /// Those over the Unix socket.
    pub local: mpsc::Receiver<Connection>,
    /// Those over the network.
    pub remote: mpsc::Receiver<Connection>,
}

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
            let places = Places { of_side: permit, of_caller: None };
            let peer = Peer { caller: caller.clone(), opened: Instant::now(), remote: None };
            let connection = Connection::new(stream, peer, places);
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
    /// A connection that takes its places until it is closed.
    pub fn new(stream: impl Duplex + 'static, peer: Peer, places: Places) -> Connection {
        Connection::of(stream, peer, places)
    }
}

impl<P, Place> Connection<P, Place> {
    /// A connection to this peer.
    pub fn of(stream: impl Duplex + 'static, peer: P, place: Place) -> Connection<P, Place> {
        Connection { stream: Box::pin(stream), peer, _place: place }
    }
}

impl<P: Clone + Send + Sync + 'static, Place> Connected for Connection<P, Place> {
    type ConnectInfo = P;

    fn connect_info(&self) -> P {
        self.peer.clone()
    }
}

impl<P: Unpin, Place: Unpin> AsyncRead for Connection<P, Place> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, buffer)
    }
}

impl<P: Unpin, Place: Unpin> AsyncWrite for Connection<P, Place> {
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
