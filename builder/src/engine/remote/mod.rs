//! A cache that other machines share: results of actions that ran elsewhere. Decision 52 explains
//! when a result of it counts, and who trusts it. The same server may also execute actions, as
//! decision 53 explains.
//!
//! A cache can be down, slow or wrong. A read that fails ends the use of the cache for this build,
//! with one warning, and the steps run here. No fault of a cache fails a build.

mod counters;
mod execute;
mod foreign;
mod listing;
mod mode;
mod probe;
mod remote_action;
mod sources;
mod way;

pub use counters::Use;
pub use execute::Executed;
pub use foreign::foreign;
pub use mode::{Mode, Trust};

use super::action::{Action, ActionResult};
use super::digest::Digest;
use super::stop;
use super::store::{Incoming, Store};
use crate::error::{Error, Result};
use crate::report::{self, Report};
use bytes::Bytes;
use counters::Counters;
use execute::Execution;
use osbuild_remote::{Access, Address, BlobId, Cache, Fault, Protocol, Retry, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A shared cache, as the steps of one command use it.
pub struct Remote {
    cache: Cache,
    address: Address,
    mode: Mode,
    /// The properties of the workers that may execute steps.
    platform: BTreeMap<String, String>,
    report: Report,
    /// Whether reads have failed.
    is_read_off: AtomicBool,
    /// Whether writes have failed.
    is_write_off: AtomicBool,
    counters: Counters,
    execution: Execution,
    /// Held by the first step to be executed there, while it finds out whether that is possible.
    first_step: Mutex<()>,
}

impl Remote {
    /// The cache at `address`. Nothing is sent before the first step.
    ///
    /// # Errors
    /// A certificate, key or header is malformed, or a plain cache cannot do what `mode` asks.
    pub fn new(address: Address, access: &Access, mode: Mode, report: Report) -> Result<Self> {
        let retry = Retry { is_stopped: || stop::check().is_err(), ..Retry::default() };
        Remote::with(address, access, mode, report, retry)
    }

    /// The cache at `address`, with other timeouts. Errors are those of [`Self::new`].
    pub fn with(
        address: Address,
        access: &Access,
        mode: Mode,
        report: Report,
        retry: Retry,
    ) -> Result<Self> {
        if mode == Mode::Execute && address.protocol == Protocol::Http {
            return Err(Error::usage(format!(
                "`{address}` is a plain cache, and executes nothing"
            ))
            .hint("use `grpc://` or `grpcs://`, or the mode `cache`"));
        }
        let cache = Cache::new(&address, access, retry).map_err(|fault| {
            Error::usage(format!("cannot use the cache `{address}`")).cause(fault)
        })?;
        let (is_read_off, is_write_off) = Default::default();
        let (counters, execution, first_step) = Default::default();
        Ok(Remote {
            cache,
            address,
            mode,
            platform: BTreeMap::new(),
            report,
            is_read_off,
            is_write_off,
            counters,
            execution,
            first_step,
        })
    }

    /// Executes steps on workers with these properties, as the service names them.
    pub fn on_platform(self, platform: BTreeMap<String, String>) -> Self {
        Remote { platform, ..self }
    }

    /// Its address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The counters so far.
    pub fn used(&self) -> Use {
        self.counters.used(self.cache.traffic())
    }

    /// The same in one line for people.
    pub fn summary(&self) -> String {
        let Use { hits, misses, executed, saved, traffic } = self.used();
        let executed = match self.mode {
            Mode::Execute => format!(" and executed {executed} steps"),
            _ => String::new(),
        };
        let saved = match saved {
            Duration::ZERO => String::new(),
            saved => format!(", which took {} to make", report::duration(saved)),
        };
        format!(
            "the cache {} had {hits} of {} results{saved}{executed}: {} received, {} sent",
            self.address,
            hits + misses,
            report::bytes(traffic.received),
            report::bytes(traffic.sent)
        )
    }

    /// The result of an action, with all its files in the store; `None` if the cache has none that
    /// counts, or cannot be used.
    ///
    /// # Errors
    /// The store cannot be written, or the user wants to stop.
    pub fn fetch(
        &self,
        store: &Store,
        key: &Digest,
        action: &Action,
    ) -> Result<Option<ActionResult>> {
        self.ask(key, action, &|| {
            let Some((mut result, printed)) = self.try_record(key, action)? else {
                return Ok(None);
            };
            let outputs = result.outputs.values().map(|output| output.digest);
            self.read(store, outputs.collect())?;
            // A result counts without its log, which is not one of the named outputs.
            if let Some(printed) = printed {
                result.log = Some(store.put_bytes(&printed).map_err(local)?);
            } else if let Some(log) = result.log {
                match self.read(store, BTreeSet::from([log])) {
                    Err(Fault::Missing) => result.log = None,
                    other => other?,
                }
            }
            Ok(Some(result))
        })
    }

    /// The result of an action without its files and its log, which may be gone; `None` if the
    /// cache has none that counts, or cannot be used.
    ///
    /// # Errors
    /// The user wants to stop.
    pub fn record(&self, key: &Digest, action: &Action) -> Result<Option<ActionResult>> {
        self.ask(key, action, &|| {
            let record = self.try_record(key, action)?;
            Ok(record.map(|(result, _)| ActionResult { log: None, ..result }))
        })
    }

    /// Asks for a result, and ends the reading for this build if the cache cannot be used.
    fn ask(
        &self,
        key: &Digest,
        action: &Action,
        request: &dyn Fn() -> std::result::Result<Option<ActionResult>, Fault>,
    ) -> Result<Option<ActionResult>> {
        if self.is_read_off.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match request() {
            Ok(Some(result)) => {
                self.counters.hit(*key, &result);
                return Ok(Some(result));
            }
            Ok(None) => {}
            Err(Fault::Missing) => self.report.detail(format!(
                "{} has the result of `{}`, but lacks a file of it",
                self.address, action.name
            )),
            Err(Fault::Stopped) => return Err(Error::stopped()),
            Err(Fault::Local(error)) => {
                return Err(Error::build("cannot keep what a cache sent").cause(error));
            }
            Err(fault) => {
                // There is no point in a write to a cache that cannot be read.
                self.is_write_off.store(true, Ordering::Relaxed);
                self.execution.turn_off();
                self.turn_off(&self.is_read_off, &fault, "the steps run here");
            }
        }
        self.counters.miss(*key);
        Ok(None)
    }

    /// The result of an action as the cache has it, and what the step printed if that is in the
    /// result itself.
    fn try_record(
        &self,
        key: &Digest,
        action: &Action,
    ) -> std::result::Result<Option<(ActionResult, Option<Bytes>)>, Fault> {
        let Some(bytes) = self.cache.result(&blob(key))? else { return Ok(None) };
        let result = foreign(&bytes, action, &self.address.to_string());
        if result.is_none() {
            self.report
                .detail(format!("{} has no result of `{}` that counts", self.address, action.name));
        }
        Ok(result)
    }

    /// Reads those of the blobs that the store lacks.
    fn read(&self, store: &Store, blobs: BTreeSet<Digest>) -> std::result::Result<(), Fault> {
        let lacking = blobs.iter().filter(|digest| !store.contains(digest));
        let lacking = lacking.map(blob).collect::<Vec<_>>();
        let mut fresh = || store.incoming().map_err(io::Error::other);
        let mut done = |whole: Incoming| whole.finish().map(drop).map_err(io::Error::other);
        self.cache.read(&lacking, &mut fresh, &mut done)
    }

    /// Gives the cache the result of an action that ran here, if the mode says so. The messages of
    /// the action must be in the store.
    ///
    /// # Errors
    /// The user wants to stop.
    pub fn publish(
        &self,
        store: &Store,
        key: &Digest,
        action: &Action,
        result: &ActionResult,
    ) -> Result<()> {
        if self.mode != Mode::CacheWrite || self.is_write_off.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.try_publish(store, key, action, result) {
            Ok(()) => {}
            Err(Fault::Stopped) => return Err(Error::stopped()),
            Err(fault) => self.turn_off(&self.is_write_off, &fault, "it gets no results"),
        }
        Ok(())
    }

    fn try_publish(
        &self,
        store: &Store,
        key: &Digest,
        action: &Action,
        result: &ActionResult,
    ) -> std::result::Result<(), Fault> {
        let mut digests = BTreeSet::from([*key, action.command_digest()]);
        digests.extend(result.outputs.values().map(|output| output.digest));
        digests.extend(result.log);
        self.write(digests, &mut |digest| store.path(digest).map(Source::File))?;
        self.cache.put_result(&blob(key), &result.encode())
    }

    /// Ends the use of the cache for this build, and prints why once.
    fn turn_off(&self, switch: &AtomicBool, fault: &Fault, then: &str) {
        if !switch.swap(true, Ordering::Relaxed) {
            let failed = match fault {
                Fault::Local(_) => format!("a file for the cache {} cannot be read", self.address),
                _ => format!("the cache {} failed", self.address),
            };
            self.report.warning(format!("{failed}, so {then}: {fault}"));
        }
    }
}

fn blob(digest: &Digest) -> BlobId {
    BlobId::new(digest.hex(), digest.size())
}

fn local(error: Error) -> Fault {
    Fault::Local(io::Error::other(error))
}
