//! The connections of clients, whose number is limited.

use crate::limits::MAX_CONNECTIONS;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;

/// A connection that counts until it is closed.
pub struct Connection {
    stream: UnixStream,
    opened: Opened,
    _permit: OwnedSemaphorePermit,
}

/// When the connection of a request was opened.
#[derive(Clone, Copy, Debug)]
pub struct Opened(pub Instant);

/// The connections that clients open. One too many is closed at once.
pub fn accepted(listener: UnixListener) -> impl Stream<Item = io::Result<Connection>> {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    UnixListenerStream::new(listener).filter_map(move |stream| match stream {
        Ok(stream) => {
            let permit = permits.clone().try_acquire_owned().ok()?;
            Some(Ok(Connection { stream, opened: Opened(Instant::now()), _permit: permit }))
        }
        Err(error) => Some(Err(error)),
    })
}

impl Connected for Connection {
    type ConnectInfo = Opened;

    fn connect_info(&self) -> Opened {
        self.opened
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
