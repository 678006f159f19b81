//! A watch that waits for changes of the store.

use crate::shared::SharedStore;
use osbuild_resources::{Bookmark, Change, Cursor, Event, Overrun};
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// A watch of one client.
pub struct Watch {
    store: Arc<SharedStore>,
    cursor: Cursor,
    changed: watch::Receiver<()>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Watch {
    /// A watch that reads from the cursor, and waits for `changed` of its kind.
    pub(crate) fn new(
        store: Arc<SharedStore>,
        cursor: Cursor,
        changed: watch::Receiver<()>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Watch {
        Watch { store, cursor, changed, _permit: permit }
    }

    /// Waits until there are events, and returns them, up to about `max_bytes`.
    pub async fn next(&mut self, max_bytes: usize) -> Result<Vec<Event>, Overrun> {
        loop {
            let events = self.read(max_bytes)?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.changed.changed().await.expect("a sender outlives its receivers");
        }
    }

    /// The events until now, up to about `max_bytes`.
    pub fn read(&mut self, max_bytes: usize) -> Result<Vec<Event>, Overrun> {
        self.store.read(|store| store.read(&mut self.cursor, max_bytes))
    }

    /// The bytes of the event of a change, which `encode` makes unless another watch has sent them.
    pub fn encoded(
        &self,
        change: &Change,
        bookmark: &Bookmark,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        self.store.encoded(change, bookmark, encode)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.store.end_watch(self.cursor.target().kind());
    }
}
