//! The store, shared by all calls, which wakes the watches at its changes.

use crate::access::Caller;
use crate::apply::{self, Step};
use crate::catalog::is_kept;
use crate::client_type::ClientType;
use crate::documents::Draft;
use crate::encoded_events::EncodedEvents;
use crate::generations::{self, Difference, Generations};
use crate::limits::{MAX_WATCHES, STORE};
use crate::observed;
use crate::plugins::finalizers::Finalizers;
use crate::tried::{PartOf, Tried};
use crate::watch::Watch;
use crate::wire;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{SettingName, StartSettings};
use osbuild_resources::{
    Bookmark, Change, Content, Cookie, Error, Event, Kind, Phase, Query, Resource, Start, Store,
    Target,
};
use prost::bytes::Bytes;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::Status;

/// The store behind a lock that is held for one operation in memory, never while somebody waits.
pub struct SharedStore {
    inner: Mutex<Inner>,
    watches: Arc<Semaphore>,
    encoded: Mutex<EncodedEvents>,
}

struct Inner {
    store: Store,
    /// The generations of the settings.
    generations: Generations,
    /// While changes are tried.
    tried: Option<Tried>,
    /// The number of the next try.
    next_try: u64,
    /// The settings with which the node has started.
    start: StartSettings,
    /// The settings that `init` has refused.
    refused: BTreeSet<SettingName>,
    finalizers: Finalizers,
    /// After a loss of revocations those that are left, until another is written.
    left_revocations: Option<Vec<Arc<Resource>>>,
    /// Wakes the watches of a kind. A kind without watches has no sender.
    changed: BTreeMap<Kind, watch::Sender<()>>,
}

/// The settings that a call confirms.
pub struct ToConfirm {
    settings: Vec<Arc<Resource>>,
    /// When the try had changed a setting last.
    changed: Option<Instant>,
}

impl Inner {
    fn changes(&mut self, kind: &Kind) -> watch::Receiver<()> {
        let changed = self.changed.entry(kind.clone());
        changed.or_insert_with(|| watch::channel(()).0).subscribe()
    }

    fn change<T>(
        &mut self,
        kind: &Kind,
        is_setting: bool,
        write: impl FnOnce(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let written = write(&mut self.store)?;
        if let Some(tried) = self.tried.as_mut().filter(|_| is_setting) {
            tried.changed = Some(Instant::now());
        }
        if let Some(watches) = self.changed.get(kind) {
            watches.send_replace(());
        }
        Ok(written)
    }
}

impl SharedStore {
    /// An empty store, whose bookmarks no other process accepts.
    pub fn new() -> Outcome<SharedStore> {
        let (mut cookie, mut next_try) = (Cookie([0; 8]), [0; 8]);
        for random in [&mut cookie.0, &mut next_try] {
            getrandom(random, GetRandomFlags::empty()).explain("get random bytes")?;
        }
        let mut store = Store::new(cookie, STORE);
        observed::TYPES.iter().for_each(|one| store.set_apart(one.kind(), one.room()));
        let generations = Generations::default();
        let inner = Inner {
            store,
            generations,
            tried: None,
            // Another process has had other tries.
            next_try: u64::from_le_bytes(next_try).max(1),
            start: StartSettings::default(),
            refused: BTreeSet::new(),
            finalizers: Finalizers::default(),
            left_revocations: None,
            changed: BTreeMap::new(),
        };
        Ok(SharedStore {
            inner: Mutex::new(inner),
            watches: Arc::new(Semaphore::new(MAX_WATCHES)),
            encoded: Mutex::default(),
        })
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
        self.lock().change(kind, is_setting(kind), write)
    }

    /// Does the same for a call that is part of this try.
    ///
    /// # Errors
    /// The try has ended, or the resources cannot be changed.
    pub fn write_in_try<T>(
        &self,
        part_of: PartOf,
        kind: &Kind,
        write: impl FnOnce(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Status> {
        let mut inner = self.lock();
        part_of.check(inner.tried.as_ref())?;
        inner.change(kind, is_setting(kind), write).map_err(|error| wire::status(&error))
    }

    /// Does the same for what changes no setting: resources and finalizers of plugins.
    pub fn write_beside<T>(
        &self,
        kind: &Kind,
        write: impl FnOnce(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.lock().change(kind, false, write)
    }

    /// Refuses changes of settings by clients while the node does not run with the newest ones.
    pub fn admit_changes(&self) -> Result<(), Status> {
        match self.lock().start {
            StartSettings::Newest => Ok(()),
            StartSettings::Earlier => Err(Status::unavailable(
                "starts with the newest settings have failed: the node starts with earlier ones, \
                 and takes changes once it is ready",
            )),
            StartSettings::GoneBack => Err(Status::unavailable(
                "the node is going back to earlier settings, and takes changes after that",
            )),
        }
    }

    /// Takes note of the settings with which the node has started.
    pub fn set_start(&self, start: StartSettings) {
        self.lock().start = start;
    }

    /// Changes the finalizers of plugins on a resource of this kind.
    pub fn change_finalizers(
        &self,
        kind: &Kind,
        change: impl FnOnce(&mut Finalizers, &mut Store) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Inner { store, finalizers, changed, .. } = &mut *self.lock();
        change(finalizers, store)?;
        if let Some(watches) = changed.get(kind) {
            watches.send_replace(());
        }
        Ok(())
    }

    /// Applies drafts of settings, all or none, unless this is a dry run. Returns what became of
    /// them, or would.
    ///
    /// # Errors
    /// The try that this is part of has ended, or a draft cannot be applied.
    pub fn apply(
        &self,
        part_of: PartOf,
        drafts: Vec<Draft>,
        is_dry: bool,
    ) -> Result<Vec<Step>, Status> {
        let Inner { store, tried, changed, .. } = &mut *self.lock();
        part_of.check(tried.as_ref())?;
        let steps = apply::plan(store, drafts)?;
        if is_dry {
            return Ok(steps);
        }
        let (before, now) = (of_types(ClientType::all(), store), SystemTime::now());
        let applied = apply::carry_out(store, &steps, now);
        if applied.is_err() {
            let put_back = put_back_of(ClientType::all(), store, &before, now);
            put_back.map_err(|error| wire::status(&error))?;
        }
        let has_setting = steps.iter().any(|step| is_setting(step.after.key.kind()));
        if let Some(tried) = tried.as_mut().filter(|_| has_setting) {
            tried.changed = Some(Instant::now());
        }
        wake_kinds(changed, steps.iter().map(|step| step.after.key.kind()));
        applied.map_err(|error| wire::status(&error))?;
        Ok(steps)
    }

    /// Records the settings of now as a generation that is the caller's, unless they are tried.
    pub fn record_generation(&self, caller: &str) {
        self.record(|generations, settings| {
            generations.record(caller, SystemTime::now(), settings);
        });
    }

    /// Records the settings after a write of one resource by the caller, unless they are tried.
    pub fn record_write(&self, caller: &str) {
        self.record(|generations, settings| {
            generations.record_write(caller, SystemTime::now(), settings);
        });
    }

    fn record(&self, record: impl FnOnce(&mut Generations, Vec<Arc<Resource>>)) {
        let Inner { store, generations, tried, .. } = &mut *self.lock();
        if tried.is_none() {
            record(generations, running(store));
        }
    }

    /// The generations.
    pub fn generations(&self) -> Generations {
        self.lock().generations.clone()
    }

    /// Begins with the generations of an earlier process.
    pub fn restore_generations(&self, generations: Generations) {
        self.lock().generations = generations;
    }

    /// Gives the settings the content of a generation, unless this is a dry run. What has an owner
    /// or is being torn down stays as it is. Returns what changes.
    ///
    /// # Errors
    /// The try that this is part of has ended, there is no such generation, `permit` refuses the
    /// changes, or they do not go together with what stays.
    pub fn restore_generation(
        &self,
        part_of: PartOf,
        number: u64,
        is_dry: bool,
        permit: impl FnOnce(&[Difference]) -> Result<(), Status>,
    ) -> Result<Vec<Difference>, Status> {
        let Inner { store, generations, tried, changed, .. } = &mut *self.lock();
        part_of.check(tried.as_ref())?;
        let generation = generations.get(number).ok_or_else(|| {
            Status::not_found(format!("there is no generation {number} any more, or not yet"))
        })?;
        let differences = generations::to_restore(store, &running(store), generation);
        permit(&differences)?;
        let changes = differences.iter().map(|one| (&one.key, one.after.as_ref()));
        apply::set_different_things(store, changes)
            .map_err(|status| Status::failed_precondition(status.message()))?;
        if is_dry {
            return Ok(differences);
        }
        let (before, now) = (settings(store), SystemTime::now());
        let carried_out =
            generations::carry_out(store, &differences, now).map_err(|error| wire::status(&error));
        if carried_out.is_err() {
            put_back(store, &before, now).map_err(|error| wire::status(&error))?;
        }
        if let Some(tried) = tried {
            tried.changed = Some(Instant::now());
        }
        wake(changed);
        carried_out?;
        Ok(differences)
    }

    /// Gives the settings of the host the content that they had in the newest generation for which
    /// `is_it` holds; without one, only those are left that `stays` accepts. Nothing changes if it
    /// holds for those of now. Returns whether there was one.
    ///
    /// # Errors
    /// A resource cannot be replaced.
    pub fn go_back(
        &self,
        is_it: impl Fn(&[Arc<Resource>]) -> bool,
        stays: impl Fn(&Resource) -> bool,
    ) -> Result<bool, Error> {
        let Inner { store, generations, changed, .. } = &mut *self.lock();
        if is_it(&in_effect(store)) {
            return Ok(true);
        }
        let found = generations.iter().rev().find(|generation| is_it(&generation.settings));
        let is_found = found.is_some();
        let before = match found {
            Some(generation) => generation.settings.clone(),
            None => in_effect(store).into_iter().filter(|one| stays(one)).collect(),
        };
        let of_host = ClientType::all().filter(|one| one.of_host().is_some());
        let put_back = put_back_of(of_host, store, &before, SystemTime::now());
        wake(changed);
        put_back.map(|()| is_found)
    }

    /// Takes note of the settings that `init` has refused.
    pub fn set_refused(&self, refused: BTreeSet<SettingName>) {
        self.lock().refused = refused;
    }

    /// The settings that `init` has refused when it last took any.
    pub fn refused(&self) -> BTreeSet<SettingName> {
        self.lock().refused.clone()
    }

    /// Returns the differences that the running try has made to the settings.
    pub fn tried_differences(&self) -> Vec<Difference> {
        let Inner { store, tried, .. } = &*self.lock();
        let before = tried.as_ref().map(|tried| tried.before.clone());
        before.map_or_else(Vec::new, |before| generations::differences(&before, &settings(store)))
    }

    /// Has the settings of now count as the confirmed ones until the caller's try ends. If a try is
    /// running already, its confirmed ones, its caller and its number stay. Returns the number.
    pub fn begin_try(&self, caller: &str) -> u64 {
        let Inner { store, tried, next_try, .. } = &mut *self.lock();
        let begin = || {
            let number = *next_try;
            *next_try = number.checked_add(1).unwrap_or(1);
            Tried { number, before: settings(store), changed: None, caller: caller.to_owned() }
        };
        tried.get_or_insert_with(begin).number
    }

    /// Refuses a call that is part of a try that has ended.
    pub fn check_try(&self, part_of: PartOf) -> Result<(), Status> {
        part_of.check(self.lock().tried.as_ref())
    }

    /// The number of the running try.
    pub fn try_number(&self) -> Option<u64> {
        self.lock().tried.as_ref().map(|tried| tried.number)
    }

    /// The caller that began the running try.
    pub fn try_caller(&self) -> Option<String> {
        self.lock().tried.as_ref().map(|tried| tried.caller.clone())
    }

    /// Whether changes are tried.
    pub fn is_trying(&self) -> bool {
        self.lock().tried.is_some()
    }

    /// When the try has changed a setting last.
    pub fn last_tried(&self) -> Option<Instant> {
        self.lock().tried.as_ref()?.changed
    }

    /// The changes of the try have their effect from now on at the earliest: an older connection
    /// does not show that clients can connect.
    pub fn delay_confirmation(&self) {
        let Inner { tried, .. } = &mut *self.lock();
        if let Some(changed) = tried.as_mut().and_then(|tried| tried.changed.as_mut()) {
            *changed = Instant::now();
        }
    }

    /// The settings of now, which a call is about to confirm.
    pub fn to_confirm(&self) -> ToConfirm {
        let Inner { store, tried, .. } = &*self.lock();
        let changed = tried.as_ref().and_then(|tried| tried.changed);
        ToConfirm { settings: settings(store), changed }
    }

    /// Ends the try: these settings are confirmed. Those that were changed since then were changed
    /// in the try, and are taken back.
    pub fn confirm_try(&self, confirmed: &ToConfirm) -> Result<(), Error> {
        let Inner { store, tried, changed, .. } = &mut *self.lock();
        let Some(tried) = tried.take() else { return Ok(()) };
        if tried.changed == confirmed.changed {
            return Ok(());
        }
        let put_back = put_back(store, &confirmed.settings, SystemTime::now());
        wake(changed);
        put_back
    }

    /// Ends the try, and gives the settings their earlier content again.
    pub fn take_back(&self) -> Result<(), Error> {
        let Inner { store, tried, changed, .. } = &mut *self.lock();
        let Some(Tried { before, .. }) = tried.take() else { return Ok(()) };
        let put_back = put_back(store, &before, SystemTime::now());
        wake(changed);
        put_back
    }

    /// The resources that outlast the process, other than roles and revocations: confirmed
    /// settings, and the resources of types that this release does not know. They have the
    /// finalizers of now, also while changes are tried, without those of plugins.
    pub fn kept(&self) -> Vec<Arc<Resource>> {
        let Inner { store, tried, finalizers, .. } = &*self.lock();
        let confirmed = match tried {
            Some(Tried { before, .. }) => {
                before.iter().filter_map(|one| store.taken_back(one)).collect()
            }
            None => settings(store),
        };
        let others = store.all().filter(|one| {
            let kind = one.content.key.kind();
            is_kept(kind) && ClientType::of(kind).is_none()
        });
        confirmed.iter().chain(others).map(|one| finalizers.without(one)).collect()
    }

    /// The roles and revocations, which outlast the process, without the finalizers of plugins.
    pub fn kept_access(&self) -> Vec<Arc<Resource>> {
        let Inner { store, finalizers, .. } = &*self.lock();
        let types = ClientType::all().filter(|one| !one.is_setting());
        let kept = of_types(types, store).into_iter();
        kept.map(|one| finalizers.without(&one)).collect()
    }

    /// Takes note that those revocations are lost that the store does not have.
    pub fn lose_revocations(&self) {
        let Inner { store, left_revocations, .. } = &mut *self.lock();
        *left_revocations = Some(of_types([ClientType::Revocation].into_iter(), store));
    }

    /// Whether revocations are lost, and the store has none that was written since.
    pub fn lacks_revocations(&self) -> bool {
        let Inner { store, left_revocations, .. } = &mut *self.lock();
        let Some(left) = left_revocations else { return false };
        let is_left = |one: &Arc<Resource>| {
            let Content { key, spec, .. } = &one.content;
            left.iter().any(|left| left.content.key == *key && left.content.spec == *spec)
        };
        if !of_types([ClientType::Revocation].into_iter(), store).iter().all(is_left) {
            *left_revocations = None;
        }
        left_revocations.is_some()
    }

    /// Returns a receiver that wakes up at each change of a kind. Unlike a watch, it does not count
    /// against the limit of watches, and cannot be too slow.
    pub fn changes(&self, kind: &Kind) -> watch::Receiver<()> {
        self.lock().changes(kind)
    }

    /// Begins a watch: its first events, and what reads those after. Those of callers on the
    /// network are limited as all of their calls are.
    pub fn watch(
        self: &Arc<Self>,
        caller: &Caller,
        target: Target,
        start: &Start,
        announced: bool,
    ) -> Result<(Vec<Event>, Watch), Status> {
        let permit = match caller.is_remote() {
            true => None,
            false => Some(self.watches.clone().try_acquire_owned().map_err(|_| {
                Status::resource_exhausted(format!("{MAX_WATCHES} watches are open already"))
            })?),
        };
        self.open(target, start, announced, permit)
    }

    /// Begins the watch of a controller's input, whose number is limited elsewhere.
    pub fn watch_input(self: &Arc<Self>, target: Target) -> Result<Watch, Status> {
        self.open(target, &Start::Now, false, None).map(|(_, watch)| watch)
    }

    fn open(
        self: &Arc<Self>,
        target: Target,
        start: &Start,
        announced: bool,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<(Vec<Event>, Watch), Status> {
        let mut inner = self.lock();
        let (events, cursor) =
            inner.store.watch(target, start, announced).map_err(|error| wire::status(&error))?;
        let changed = inner.changes(cursor.target().kind());
        Ok((events, Watch::new(self.clone(), cursor, changed, permit)))
    }

    /// Takes note that a watch of a kind ends. The last one takes the sender with it: clients may
    /// watch kinds of any name.
    pub(crate) fn end_watch(&self, kind: &Kind) {
        let changed = &mut self.lock().changed;
        if changed.get(kind).is_some_and(|watches| watches.receiver_count() == 1) {
            changed.remove(kind);
        }
    }

    /// The bytes of the event of a change, which `encode` makes unless another watch has sent them.
    pub(crate) fn encoded(
        &self,
        change: &Change,
        bookmark: &Bookmark,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        let mut encoded = self.encoded.lock().expect("no thread panics while it encodes");
        encoded.of(change, bookmark, encode)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no thread panics while it holds the lock")
    }
}

/// Whether resources of this kind are settings.
fn is_setting(kind: &Kind) -> bool {
    ClientType::of(kind).is_some_and(ClientType::is_setting)
}

/// Gives all settings their earlier content again.
fn put_back(store: &mut Store, before: &[Arc<Resource>], now: SystemTime) -> Result<(), Error> {
    put_back_of(ClientType::settings(), store, before, now)
}

/// The same for resources of these types.
fn put_back_of(
    types: impl Iterator<Item = ClientType>,
    store: &mut Store,
    before: &[Arc<Resource>],
    now: SystemTime,
) -> Result<(), Error> {
    for kind in types.map(ClientType::kind) {
        let of_kind = before.iter().filter(|one| *one.content.key.kind() == kind);
        let of_kind: Vec<_> = of_kind.cloned().collect();
        store.take_back(&kind, &of_kind, now)?;
    }
    Ok(())
}

/// Wakes the watches of all settings.
fn wake(changed: &BTreeMap<Kind, watch::Sender<()>>) {
    ClientType::settings().for_each(|one| wake_kinds(changed, std::iter::once(&one.kind())));
}

/// Wakes the watches of these kinds.
fn wake_kinds<'a>(
    changed: &BTreeMap<Kind, watch::Sender<()>>,
    kinds: impl Iterator<Item = &'a Kind>,
) {
    for watches in kinds.filter_map(|kind| changed.get(kind)) {
        watches.send_replace(());
    }
}

/// All settings.
fn settings(store: &Store) -> Vec<Arc<Resource>> {
    of_types(ClientType::settings(), store)
}

/// All resources of these types.
fn of_types(types: impl Iterator<Item = ClientType>, store: &Store) -> Vec<Arc<Resource>> {
    let query = Query::default();
    types.flat_map(|one| store.list(&one.kind(), &query).collect::<Vec<_>>()).collect()
}

/// All settings that are in effect.
fn in_effect(store: &Store) -> Vec<Arc<Resource>> {
    settings(store).into_iter().filter(|one| one.content.is_in_effect()).collect()
}

/// All settings that are not being torn down.
fn running(store: &Store) -> Vec<Arc<Resource>> {
    let is_running = |one: &Arc<Resource>| one.content.phase == Phase::Running;
    settings(store).into_iter().filter(is_running).collect()
}

#[cfg(test)]
mod tests;
