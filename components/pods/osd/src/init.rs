//! Conversations with `init`, which block, one after another.

use osbuild_protocol::{Client, ClientError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long `init` may take to answer, as it waits for the disk.
const TIMEOUT: Duration = Duration::from_secs(150);

/// The `host` socket of `init`.
pub struct Init {
    socket: Arc<Mutex<PathBuf>>,
}

impl Init {
    /// The `init` that listens on this socket.
    pub fn new(socket: PathBuf) -> Init {
        Init { socket: Arc::new(Mutex::new(socket)) }
    }

    /// Has a conversation. No two of them overlap, so that what one has read of `init` and of the
    /// store is true until it ends.
    pub async fn converse<T: Send + 'static>(
        &self,
        talk: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, ClientError> {
        let socket = self.socket.clone().lock_owned().await;
        let conversation =
            tokio::task::spawn_blocking(move || talk(&mut Client::connect(&socket, TIMEOUT)?));
        conversation.await.expect("no conversation panics")
    }
}
