//! The store, shared by all calls, and the watches that wait for its changes.

use crate::limits::{MAX_WATCHES, STORE};
use crate::wire;
use osbuild_failure::{Explain, Outcome};
use osbuild_resources::{Cookie, Cursor, Error, Event, Kind, Overrun, Start, Store, Target};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::Status;

/// The store behind a lock that is held for one operation in memory, never while somebody waits.
pub struct SharedStore {
    inner: Mutex<Inner>,
    watches: Arc<Semaphore>,
}

struct Inner {
    store: Store,
    /// Wakes the watches of a kind. A kind without watches has no sender.
    changed: BTreeMap<Kind, watch::Sender<()>>,
}

impl Inner {
    fn changes(&mut self, kind: &Kind) -> watch::Receiver<()> {
        let changed = self.changed.entry(kind.clone());
        changed.or_insert_with(|| watch::channel(()).0).subscribe()
    }
}

impl SharedStore {
    /// An empty store, whose bookmarks no other process accepts.
    pub fn new() -> Outcome<SharedStore> {
        let mut cookie = Cookie([0; 8]);
        getrandom(&mut cookie.0, GetRandomFlags::empty()).explain("get random bytes")?;
        let inner = Inner { store: Store::new(cookie, STORE), changed: BTreeMap::new() };
        Ok(SharedStore { inner: Mutex::new(inner), watches: Arc::new(Semaphore::new(MAX_WATCHES)) })
    }

    /// Reads from the store.
    pub fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.lock().store)
    }

    /// Changes resources of a kind, and wakes its watches if that worked.
    pub fn write<T>(
        &self,
        kind: &Kind,
        write: impl FnOnce(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Inner { store, changed } = &mut *self.lock();
        let written = write(store)?;
        if let Some(watches) = changed.get(kind) {
            watches.send_replace(());
        }
        Ok(written)
    }

    /// What wakes up at each change of a kind. Unlike a watch it takes no place of a client's, and
    /// cannot be too slow.
    pub fn changes(&self, kind: &Kind) -> watch::Receiver<()> {
        self.lock().changes(kind)
    }

    /// Begins a watch: its first events, and what reads those after.
    pub fn watch(
        self: &Arc<Self>,
        target: Target,
        start: &Start,
        announced: bool,
    ) -> Result<(Vec<Event>, Watch), Status> {
        let permit = self.watches.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_WATCHES} watches are open already"))
        })?;
        let mut inner = self.lock();
        let (events, cursor) =
            inner.store.watch(target, start, announced).map_err(|error| wire::status(&error))?;
        let changed = inner.changes(cursor.target().kind());
        Ok((events, Watch { store: self.clone(), cursor, changed, _permit: permit }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no thread panics while it holds the lock")
    }
}

/// A watch of one client.
pub struct Watch {
    store: Arc<SharedStore>,
    cursor: Cursor,
    changed: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
}

impl Watch {
    /// Waits until there are events, and returns them, up to about `max_bytes`.
    pub async fn next(&mut self, max_bytes: usize) -> Result<Vec<Event>, Overrun> {
        loop {
            let events = self.store.read(|store| store.read(&mut self.cursor, max_bytes))?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.changed.changed().await.expect("a sender outlives its receivers");
        }
    }
}

/// The last watch of a kind takes the sender with it: clients may watch kinds of any name.
impl Drop for Watch {
    fn drop(&mut self) {
        let kind = self.cursor.target().kind();
        let changed = &mut self.store.lock().changed;
        if changed.get(kind).is_some_and(|watches| watches.receiver_count() == 1) {
            changed.remove(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_resources::Query;

    #[test]
    fn a_kind_that_nobody_watches_any_more_leaves_nothing_behind() {
        let store = Arc::new(SharedStore::new().unwrap());
        let watch = |name| {
            let target = Target::Kind(Kind::new("system", name).unwrap(), Query::default());
            store.watch(target, &Start::Now, false).unwrap().1
        };
        let (first, second, other) = (watch("a"), watch("a"), watch("b"));
        let watched = || store.lock().changed.len();
        drop(first);
        assert_eq!(watched(), 2);
        drop(second);
        assert_eq!(watched(), 1);
        drop(other);
        assert_eq!(watched(), 0);
        assert_eq!(store.watches.available_permits(), MAX_WATCHES);
    }
}
