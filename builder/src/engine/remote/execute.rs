//! The execution of steps on a service. No fault of it fails a build: the step runs here then.

use super::foreign::{End, Printed, executed};
use super::listing::Listing;
use super::remote_action::{Folders, RemoteAction};
use super::way::Way;
use super::{Mode, Remote, blob};
use crate::engine::action::{Action, ActionResult};
use crate::engine::digest::Digest;
use crate::engine::launcher::Launcher;
use crate::engine::shortage::Shortage;
use crate::engine::store::Store;
use crate::error::{Error, Result};
use osbuild_remote::{BlobId, Fault, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state of a service that executes steps, as known to a build.
#[derive(Default)]
pub(super) struct Execution {
    /// How it executes steps as this machine does; `None` before the first step.
    pub way: Mutex<Option<Way>>,
    /// Why it executes none, if a build found that out.
    refusal: Mutex<Option<String>>,
    /// Whether the user was warned of a recipe without a launcher.
    lacks_launcher: AtomicBool,
    /// The Merkle trees of unpacked folders, by the keys of the folders.
    listings: Mutex<BTreeMap<Digest, Arc<Listing>>>,
    /// The digests of those trees that the service has, whole.
    there: Mutex<BTreeSet<Digest>>,
}

impl Execution {
    /// Ends the use of the service, whose fault is reported already.
    pub fn turn_off(&self) {
        *lock(&self.way) = Some(Way::Nowhere);
    }
}

/// A step that a service executed.
pub struct Executed {
    /// Its result, with all files in the store.
    pub result: ActionResult,
    /// Whether the service had the result from an earlier run.
    pub is_cached: bool,
}

/// A run of a step that the service completed.
struct Attempt {
    /// The output that it printed.
    printed: Vec<u8>,
    /// Its result, or why it has none.
    end: Tried<ActionResult>,
}

/// Why a service made no result: a fault of its own, or an error of the build.
pub(super) enum Stop {
    Fault(Fault),
    Build(Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

pub(super) type Tried<T> = std::result::Result<T, Stop>;

impl Remote {
    /// Whether it executes steps, as far as the build knows.
    pub fn executes(&self) -> bool {
        self.mode == Mode::Execute && *lock(&self.execution.way) != Some(Way::Nowhere)
    }

    /// Why it executes no steps, as the warning has it.
    pub fn refusal(&self) -> Option<String> {
        lock(&self.execution.refusal).clone()
    }

    /// Executes an action on the service, and passes what it printed to `log`. `launcher` is for a
    /// service that runs actions in a folder. `here` runs an action on this machine, to compare
    /// both. `None` if the action has to run here.
    ///
    /// # Errors
    /// The action failed, the store cannot be used, or the user wants to stop.
    pub fn execute(
        &self,
        store: &Store,
        action: &Action,
        launcher: Option<&Launcher>,
        log: &mut dyn FnMut(&[u8]) -> Result<()>,
        here: &mut dyn FnMut(&Action) -> Result<ActionResult>,
    ) -> Result<Option<Executed>> {
        let launcher = match self.way(store, action, launcher, here)? {
            Way::Nowhere => return Ok(None),
            Way::Root => None,
            // Another recipe's lock has one, with which the build found the way.
            Way::Folder if launcher.is_none() => {
                self.warn_of_no_launcher(action);
                return Ok(None);
            }
            Way::Folder => launcher,
        };
        match self.try_execute(store, action, launcher, log) {
            Ok(executed) => {
                match executed.is_cached {
                    true => self.counters.hit(action.digest(), &executed.result),
                    false => self.counters.execution(),
                }
                Ok(Some(executed))
            }
            Err(Stop::Build(error)) => Err(error),
            Err(Stop::Fault(fault)) => self.give_up(action, fault).map(|()| None),
        }
    }

    /// Warns once that steps run here because their lock has no launcher.
    fn warn_of_no_launcher(&self, action: &Action) {
        if !self.execution.lacks_launcher.swap(true, Ordering::Relaxed) {
            self.report.warning(format!(
                "`{}` and other steps of its recipe run here, not on {}: the lock has no launcher, \
                 which `cargo osbuild lock` adds",
                action.name, self.address
            ));
        }
    }

    /// Ends the use of the service after a fault, with one warning.
    pub(super) fn give_up(&self, action: &Action, fault: Fault) -> Result<()> {
        let address = &self.address;
        match fault {
            Fault::Stopped => return Err(Error::stopped()),
            Fault::Local(error) => {
                return Err(
                    Error::build(format!("cannot have `{}` executed", action.name)).cause(error)
                );
            }
            Fault::Unfinished(why) => {
                self.report.warning(format!("`{}` runs here, not on {address}: {why}", action.name))
            }
            fault => self.only_caches(&fault.to_string()),
        }
        Ok(())
    }

    /// From now on it is used as a cache alone.
    pub(super) fn only_caches(&self, why: &str) {
        let before = lock(&self.execution.way).replace(Way::Nowhere);
        if before != Some(Way::Nowhere) {
            *lock(&self.execution.refusal) = Some(why.to_owned());
            self.report
                .warning(format!("{} executes no steps, so they run here: {why}", self.address));
        }
    }

    /// A result of the service's cache, or one of a run.
    fn try_execute(
        &self,
        store: &Store,
        action: &Action,
        launcher: Option<&Launcher>,
        log: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Tried<Executed> {
        let whole = self.whole(store, action, launcher, false).map_err(Stop::Build)?;
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
        Ok(Executed { result: end?, is_cached })
    }

    /// Decodes the bytes of a result, and puts the files of a success into the store; `None` if the
    /// service lacks one of the files.
    fn attempt(&self, store: &Store, action: &Action, bytes: &[u8]) -> Tried<Option<Attempt>> {
        let (name, address) = (&action.name, self.address.to_string());
        let run = executed(bytes, action, &address).ok_or_else(malformed)?;
        let text = self.printed(run.printed)?;
        let end = match run.end {
            End::Made(result) => {
                let outputs = result.outputs.values().map(|output| output.digest);
                match self.read(store, outputs.collect()) {
                    Err(Fault::Missing) => return Ok(None),
                    read => read?,
                }
                Ok(result)
            }
            End::Lacks(output) => Err(Stop::Build(Error::build(format!(
                "`{name}` ended well on {address}, but its output `{output}` is not there"
            )))),
            // It may be the worker that lacks memory, and this machine may have more.
            End::Killed(status) => Err(Stop::Fault(Fault::Unfinished(format!(
                "it ended there with exit status {status}, as a killed process does"
            )))),
            // Shells and other tools end with a status of their own after a child was killed.
            End::Failed(status) => Err(match shortage(&text) {
                Some(why) => Stop::Fault(Fault::Unfinished(why.to_owned())),
                None => Stop::Build(
                    Error::build(format!("`{name}` failed on {address}"))
                        .cause(format!("it ended with exit status {status}")),
                ),
            }),
        };
        Ok(Some(Attempt { printed: text, end }))
    }

    /// The output that an action printed, whole.
    pub(super) fn printed(&self, parts: Vec<Printed>) -> std::result::Result<Vec<u8>, Fault> {
        let mut text = Vec::new();
        for part in parts {
            match part {
                Printed::Inline(bytes) => text.extend(bytes),
                Printed::Blob(blob) => text.extend(self.text(&blob)?),
            }
        }
        Ok(text)
    }

    /// A part of the output that an action printed; empty if the service lacks it, because a result
    /// counts without it.
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
        let mut supply = |failed| self.supply_again(store, whole, failed);
        let executed = self.cache.execute(&blob(&whole.digest), skip_cache, &mut supply)?;
        Ok((executed.result, executed.is_cached))
    }

    /// Runs a probe on the service, and gives the bytes of its result.
    pub(super) fn try_out(
        &self,
        store: &Store,
        probe: &RemoteAction,
    ) -> std::result::Result<bytes::Bytes, Fault> {
        let mut supply = |failed| self.supply_again(store, probe, failed);
        Ok(self.cache.try_out(&blob(&probe.digest), &mut supply)?.result)
    }

    /// Gives the service what it lacks of an action after a number of failed tries.
    fn supply_again(
        &self,
        store: &Store,
        whole: &RemoteAction,
        failed: u32,
    ) -> std::result::Result<(), Fault> {
        if failed > 0 {
            // It may have lost what it had.
            lock(&self.execution.there).clear();
        }
        self.supply(store, whole)
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
    pub(super) fn whole(
        &self,
        store: &Store,
        action: &Action,
        launcher: Option<&Launcher>,
        is_fresh: bool,
    ) -> Result<RemoteAction> {
        let tools = action.toolchains.iter();
        let tools = tools.map(|tool| self.listing(store, &tool.key, &tool.path));
        let launcher = launcher.map(|launcher| self.listing(store, &launcher.key, &launcher.path));
        let folders = Folders {
            root: self.listing(store, &action.root.key, &action.root.path)?,
            toolchains: tools.collect::<Result<_>>()?,
            launcher: launcher.transpose()?,
        };
        RemoteAction::new(action, folders, &self.platform, is_fresh)
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

/// The shortage of a failed step's worker in words, found in the step's output.
fn shortage(printed: &[u8]) -> Option<&'static str> {
    let printed = String::from_utf8_lossy(printed);
    Shortage::of(printed.lines()).map(|shortage| match shortage {
        Shortage::Memory => "one of its processes was killed there",
        Shortage::Disk => "the disk is full there",
    })
}

pub(super) fn malformed() -> Fault {
    Fault::Wrong("it sent a malformed result".to_owned())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
