//! The service `Attach`: the program in a debug container meets the call that waits for it.

use super::ID;
use crate::limits::MAX_MESSAGE;
use crate::{connections, socket};
use osbuild_cosi::v1::attach_server::{Attach, AttachServer};
use osbuild_cosi::v1::{DebugRequest, DebugResponse};
use osbuild_failure::Outcome;
use osbuild_protocol::DebugId;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// Bytes of the headers of a call.
const MAX_HEADERS: u32 = 4 << 10;

/// The program in a container, once it has connected.
pub struct Attached {
    /// The sender of its requests. The container ends when this is dropped.
    pub requests: mpsc::Sender<Result<DebugRequest, Status>>,
    /// Its responses.
    pub responses: Streaming<DebugResponse>,
}

/// The call that waits for its container, if one does.
#[derive(Default)]
pub struct Waiting(Mutex<Option<Waiter>>);

struct Waiter {
    id: DebugId,
    to: oneshot::Sender<Attached>,
}

impl Waiting {
    /// Waits for the program in this container, and no longer for another one.
    pub fn expect(&self, id: DebugId) -> oneshot::Receiver<Attached> {
        let (to, attached) = oneshot::channel();
        *self.lock() = Some(Waiter { id, to });
        attached
    }

    /// Waits for none.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    /// The call that waits for the container with this identifier. It is found once.
    fn take(&self, id: &str) -> Option<oneshot::Sender<Attached>> {
        let waiter = self.lock().take_if(|waiter| waiter.id.to_string() == id);
        waiter.map(|waiter| waiter.to)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves programs in debug containers at the socket. There has to be a runtime.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(path: &Path, waiting: Arc<Waiting>) -> Outcome<()> {
    let (accepted, connections) = mpsc::channel(1);
    connections::local(socket::listen(path)?, accepted);
    let service = AttachServer::new(AttachService { waiting });
    // The client is a program in an image of somebody else.
    let server = Server::builder()
        .max_concurrent_streams(1)
        .http2_max_header_list_size(MAX_HEADERS)
        .add_service(service.max_decoding_message_size(MAX_MESSAGE))
        .serve_with_incoming(ReceiverStream::new(connections).map(Ok::<_, io::Error>));
    tokio::spawn(async {
        if let Err(error) = server.await {
            eprintln!("error: nothing serves debug containers: {error}");
        }
    });
    Ok(())
}

struct AttachService {
    waiting: Arc<Waiting>,
}

#[tonic::async_trait]
impl Attach for AttachService {
    type AttachStream = ReceiverStream<Result<DebugRequest, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<DebugResponse>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let id = request.metadata().get(ID).and_then(|id| id.to_str().ok());
        let waiter = id.and_then(|id| self.waiting.take(id));
        let nobody = || Status::permission_denied("nobody waits for this container");
        let waiter = waiter.ok_or_else(nobody)?;
        let (requests, sent) = mpsc::channel(1);
        let attached = Attached { requests, responses: request.into_inner() };
        waiter.send(attached).map_err(|_| nobody())?;
        Ok(Response::new(ReceiverStream::new(sent)))
    }
}
