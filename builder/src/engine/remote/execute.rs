//! The execution of steps on a service. No fault of it fails a build: the step runs here then.

use super::foreign::{End, Printed, executed};
use super::listing::Listing;
use super::probe;
use super::remote_action::RemoteAction;
use super::{Mode, Remote, blob};
use crate::engine::action::{Action, ActionResult};
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Error, Kind, Result};
use osbuild_remote::{BlobId, Fault, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state of a service that executes steps, as known to a build.
#[derive(Default)]
pub(super) struct Execution {
    /// Whether it executes steps as this machine does; `None` before the first step.
    is_usable: Mutex<Option<bool>>,
    /// The Merkle trees of unpacked folders, by the keys of the folders.
    listings: Mutex<BTreeMap<Digest, Arc<Listing>>>,
    /// The digests of those trees that the service has, whole.
    there: Mutex<BTreeSet<Digest>>,
}

impl Execution {
    /// Ends the use of the service, whose fault is reported already.
    pub fn turn_off(&self) {
        *lock(&self.is_usable) = Some(false);
    }
}

/// A step that a service executed.
pub struct Executed {
    /// Its result, with all files in the store.
    pub result: ActionResult,
    /// Whether the service had the result from an earlier run.
    pub is_cached: bool,
}

/// A run of a step that came to its end.
struct Attempt {
    /// The output that it printed.
    printed: Vec<u8>,
    /// Its result, or the error of its failure.
    end: Result<ActionResult>,
}

/// Why a service made no result: a fault of its own, or an error of the build.
enum Stop {
    Fault(Fault),
    Build(Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

type Tried<T> = std::result::Result<T, Stop>;

impl Remote {
    /// Whether it executes steps, as far as the build knows.
    pub fn executes(&self) -> bool {
        self.mode == Mode::Execute && *lock(&self.execution.is_usable) != Some(false)
    }

    /// Executes an action on the service, and passes what it printed to `log`. `here` runs an
    /// action on this machine, to compare both. `None` if the action has to run here.
    ///
    /// # Errors
    /// The action failed, the store cannot be used, or the user wants to stop.
    pub fn execute(
        &self,
        store: &Store,
        action: &Action,
        log: &mut dyn FnMut(&[u8]) -> Result<()>,
        here: &mut dyn FnMut(&Action) -> Result<ActionResult>,
    ) -> Result<Option<Executed>> {
        if !self.is_usable(store, action, here)? {
            return Ok(None);
        }
        match self.try_execute(store, action, log) {
            Ok(executed) => {
                if executed.is_cached {
                    // It lacked the result under the key of the local store alone.
                    self.misses.fetch_sub(1, Ordering::Relaxed);
                    self.hits.fetch_add(1, Ordering::Relaxed);
                } else {
                    self.executed.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Some(executed))
            }
            Err(Stop::Build(error)) => Err(error),
            Err(Stop::Fault(fault)) => self.give_up(action, fault).map(|()| None),
        }
    }

    /// Ends the use of the service after a fault, with one warning.
    fn give_up(&self, action: &Action, fault: Fault) -> Result<()> {
        let address = &self.address;
        match fault {
            Fault::Stopped => return Err(Error::stopped()),
            Fault::Local(error) => {
                return Err(
                    Error::build(format!("cannot have `{}` executed", action.name)).cause(error)
                );
            }
            Fault::Overran(why) => {
                self.report.warning(format!("`{}` runs here, not on {address}: {why}", action.name))
            }
            fault => self.only_caches(&fault.to_string()),
        }
        Ok(())
    }

    /// From now on it is used as a cache alone.
    fn only_caches(&self, why: &str) {
        let before = lock(&self.execution.is_usable).replace(false);
        if before != Some(false) {
            self.report
                .warning(format!("{} executes no steps, so they run here: {why}", self.address));
        }
    }

    /// Whether it executes steps as this machine does. The first step of a build finds out.
    fn is_usable(
        &self,
        store: &Store,
        action: &Action,
        here: &mut dyn FnMut(&Action) -> Result<ActionResult>,
    ) -> Result<bool> {
        let _first = lock(&self.first_step);
        let known = *lock(&self.execution.is_usable);
        if let Some(known) = known {
            return Ok(known);
        }
        match self.why_unusable(store, action, here) {
            // Another step may have met a fault of the cache meanwhile.
            Ok(None) => return Ok(*lock(&self.execution.is_usable).get_or_insert(true)),
            Ok(Some(why)) => self.only_caches(&why),
            Err(Stop::Build(error)) => return Err(error),
            Err(Stop::Fault(fault)) => {
                self.give_up(action, fault)?;
                // A probe that takes an hour is no use either.
                self.execution.turn_off();
            }
        }
        Ok(false)
    }

    fn why_unusable(
        &self,
        store: &Store,
        action: &Action,
        here: &mut dyn FnMut(&Action) -> Result<ActionResult>,
    ) -> Tried<Option<String>> {
        if let Some(why) = self.cache.no_execution()? {
            return Ok(Some(why.to_owned()));
        }
        let probe = probe::probe(store, action).map_err(Stop::Build)?;
        let seen_here = match here(&probe) {
            Err(error) if error.kind == Kind::Build => {
                return Ok(Some("a shell of the sandbox's root does not run here".to_owned()));
            }
            result => result.and_then(|result| store.read(&result.output(probe::SEEN)?)),
        };
        let seen_here = seen_here.map_err(Stop::Build)?;
        let whole = self.whole(store, &probe, true).map_err(Stop::Build)?;
        let (bytes, _) = self.run(store, &whole, true)?;
        let run = executed(&bytes, &probe, "").ok_or_else(malformed)?;
        let End::Made(result) = run.end else {
            return Ok(Some("a shell of the input root does not run there".to_owned()));
        };
        let seen = result.output(probe::SEEN).map_err(Stop::Build)?;
        if seen.size() > probe::MAX_SEEN {
            return Ok(Some(format!("a step would see more than {} bytes there", probe::MAX_SEEN)));
        }
        self.read(store, BTreeSet::from([seen]))?;
        let seen_there = store.read(&seen).map_err(Stop::Build)?;
        let difference = probe::difference(&seen_there, &seen_here);
        Ok(difference.map(|(there, here)| {
            format!("a step would see `{there}` there, and sees `{here}` here")
        }))
    }

    /// A result of the service's cache, or one of a run.
    fn try_execute(
        &self,
        store: &Store,
        action: &Action,
        log: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Tried<Executed> {
        let whole = self.whole(store, action, false).map_err(Stop::Build)?;
        if let Some(bytes) = self.cache.result(&blob(&whole.digest))?
            && let Some(Attempt { printed, end: Ok(result) }) =
                self.attempt(store, action, &bytes)?
        {
            log(&printed).map_err(Stop::Build)?;
            return Ok(Executed { result, is_cached: true });
        }
        let (bytes, mut is_cached) = self.run(store, &whole, false)?;
        let mut attempt = self.attempt(store, action, &bytes)?;
        // A result that lost a file, or a failure that may have had a reason of its time.
        if attempt.as_ref().is_none_or(|attempt| is_cached && attempt.end.is_err()) {
            let (bytes, _) = self.run(store, &whole, true)?;
            is_cached = false;
            attempt = self.attempt(store, action, &bytes)?;
        }
        let Attempt { printed, end } = attempt.ok_or(Fault::Missing)?;
        log(&printed).map_err(Stop::Build)?;
        Ok(Executed { result: end.map_err(Stop::Build)?, is_cached })
    }

    /// Decodes the bytes of a result, and puts the files of a success into the store; `None` if the
    /// service lacks one of the files.
    fn attempt(&self, store: &Store, action: &Action, bytes: &[u8]) -> Tried<Option<Attempt>> {
        let (name, address) = (&action.name, self.address.to_string());
        let run = executed(bytes, action, &address).ok_or_else(malformed)?;
        let mut text = Vec::new();
        for printed in run.printed {
            match printed {
                Printed::Inline(bytes) => text.extend(bytes),
                Printed::Blob(blob) => text.extend(self.text(&blob)?),
            }
        }
        let end = match run.end {
            End::Made(result) => {
                let outputs = result.outputs.values().map(|output| output.digest);
                match self.read(store, outputs.collect()) {
                    Err(Fault::Missing) => return Ok(None),
                    read => read?,
                }
                Ok(result)
            }
            End::Lacks(output) => Err(Error::build(format!(
                "`{name}` ended well on {address}, but its output `{output}` is not there"
            ))),
            End::Failed(status) => Err(Error::build(format!("`{name}` failed on {address}"))
                .cause(format!("it ended with exit status {status}"))),
        };
        Ok(Some(Attempt { printed: text, end }))
    }

    /// The output that an action printed; empty if the service lacks it, because a result counts
    /// without it.
    fn text(&self, digest: &Digest) -> std::result::Result<Vec<u8>, Fault> {
        let mut text = Vec::new();
        let mut done = |whole: Vec<u8>| {
            text = whole;
            Ok(())
        };
        match self.cache.read(&[blob(digest)], &mut || Ok(Vec::new()), &mut done) {
            Ok(()) | Err(Fault::Missing) => Ok(text),
            Err(fault) => Err(fault),
        }
    }

    /// Runs an action on the service. Gives the bytes of its result, and whether the service had
    /// them.
    fn run(
        &self,
        store: &Store,
        whole: &RemoteAction,
        skip_cache: bool,
    ) -> std::result::Result<(bytes::Bytes, bool), Fault> {
        let mut supply = |failed: u32| {
            if failed > 0 {
                // It may have lost what it had.
                lock(&self.execution.there).clear();
            }
            self.supply(store, whole)
        };
        let executed = self.cache.execute(&blob(&whole.digest), skip_cache, &mut supply)?;
        Ok((executed.result, executed.is_cached))
    }

    /// Gives the service what it lacks of an action. It is asked for each unpacked folder once.
    fn supply(&self, store: &Store, whole: &RemoteAction) -> std::result::Result<(), Fault> {
        for folder in &whole.folders {
            // Other steps wait here, as they need the same folder.
            let mut there = lock(&self.execution.there);
            if there.contains(&folder.digest) {
                continue;
            }
            let files = folder.files();
            let mut source = |digest: &Digest| match folder.messages.get(digest) {
                Some(bytes) => Ok(Source::Bytes(bytes.clone())),
                None => files.get(digest).cloned().map(Source::File).ok_or_else(|| {
                    Error::build(format!("`{digest}` is not in an unpacked folder"))
                }),
            };
            self.write(folder.blobs(), &mut source)?;
            there.insert(folder.digest);
        }
        self.write(whole.blobs(), &mut |digest| whole.source(store, digest))
    }

    /// Gives the service those of the blobs that it lacks.
    pub(super) fn write(
        &self,
        blobs: BTreeSet<Digest>,
        source: &mut dyn FnMut(&Digest) -> Result<Source>,
    ) -> std::result::Result<(), Fault> {
        let blobs = blobs.iter().map(blob).collect::<Vec<_>>();
        let mut from = |blob: &BlobId| {
            let digest = Digest::parse(&blob.hash, blob.length());
            let digest = digest.ok_or_else(|| io::Error::other("a digest is malformed"))?;
            source(&digest).map_err(io::Error::other)
        };
        self.cache.write(&blobs, &mut from)
    }

    /// An action with its whole input root.
    fn whole(&self, store: &Store, action: &Action, is_fresh: bool) -> Result<RemoteAction> {
        let root = self.listing(store, &action.root.key, &action.root.path)?;
        let tools = action.toolchains.iter();
        let tools = tools.map(|tool| self.listing(store, &tool.key, &tool.path));
        RemoteAction::new(action, root, tools.collect::<Result<_>>()?, &self.platform, is_fresh)
    }

    fn listing(&self, store: &Store, key: &Digest, path: &Path) -> Result<Arc<Listing>> {
        let mut listings = lock(&self.execution.listings);
        if let Some(known) = listings.get(key) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Listing::of(store, key, path)?);
        listings.insert(*key, Arc::clone(&made));
        Ok(made)
    }
}

fn malformed() -> Fault {
    Fault::Wrong("it sent a malformed result".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
