//! Locked sources in a shared cache, beside the results. Their digests are in the lock, so it does
//! not matter who gave them to the cache.

use super::{Mode, Remote, blob};
use crate::engine::digest::Digest;
use crate::engine::store::{Incoming, Store};
use crate::error::{Error, Result};
use osbuild_remote::{Fault, Source};
use std::io;
use std::sync::atomic::Ordering;

impl Remote {
    /// Takes those of the sources that the cache has, and returns their number. A cache that cannot
    /// be read gives none.
    ///
    /// # Errors
    /// The store cannot be written, or the user wants to stop.
    pub fn take_sources(&self, store: &Store, sources: &[Digest]) -> Result<usize> {
        if self.is_read_off.load(Ordering::Relaxed) {
            return Ok(0);
        }
        match self.try_take(store, sources) {
            Ok(taken) => Ok(taken),
            Err(Fault::Stopped) => Err(Error::stopped()),
            Err(Fault::Local(error)) => {
                Err(Error::build("cannot keep what a cache sent").cause(error))
            }
            Err(fault) => {
                self.is_write_off.store(true, Ordering::Relaxed);
                self.turn_off(&self.is_read_off, &fault, "sources come from their registries");
                Ok(0)
            }
        }
    }

    fn try_take(&self, store: &Store, sources: &[Digest]) -> std::result::Result<usize, Fault> {
        let mut wanted = sources.iter().map(blob).collect::<Vec<_>>();
        let missing = self.cache.missing(&wanted)?;
        wanted.retain(|source| !missing.contains(source));
        let mut fresh = || store.incoming().map_err(io::Error::other);
        let mut done = |whole: Incoming| whole.finish().map(drop).map_err(io::Error::other);
        match self.cache.read(&wanted, &mut fresh, &mut done) {
            Ok(()) => return Ok(wanted.len()),
            Err(Fault::Missing) => {}
            Err(fault) => return Err(fault),
        }
        // One was evicted between the two calls, and ended the reading of all: its registry has it.
        for source in sources.iter().filter(|source| !store.contains(source)) {
            match self.cache.read(&[blob(source)], &mut fresh, &mut done) {
                Ok(()) | Err(Fault::Missing) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(sources.iter().filter(|source| store.contains(source)).count())
    }

    /// Gives the cache those of the sources that it lacks, if the mode says so. `restore` makes one
    /// that the store lacks.
    ///
    /// # Errors
    /// The user wants to stop.
    pub fn give_sources(
        &self,
        store: &Store,
        sources: &[Digest],
        restore: &dyn Fn(&Digest) -> Result<()>,
    ) -> Result<()> {
        if self.mode != Mode::CacheWrite || self.is_write_off.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.try_give(store, sources, restore) {
            Ok(()) => {}
            Err(Fault::Stopped) => return Err(Error::stopped()),
            Err(fault) => self.turn_off(&self.is_write_off, &fault, "it gets no sources"),
        }
        Ok(())
    }

    fn try_give(
        &self,
        store: &Store,
        sources: &[Digest],
        restore: &dyn Fn(&Digest) -> Result<()>,
    ) -> std::result::Result<(), Fault> {
        let mut source = |source: &Digest| {
            if !store.contains(source) {
                restore(source)?;
            }
            store.path(source).map(Source::File)
        };
        self.write(sources.iter().copied().collect(), &mut source)
    }
}
