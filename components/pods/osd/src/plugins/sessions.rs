//! The plugins, their connections and their controllers.

use super::access::Access;
use super::grant::Rights;
use super::limits::{MAX_BYTES, MAX_CONNECTIONS, MAX_FINALIZERS, MAX_NAME, MAX_RESOURCES};
use super::pace::Pace;
use super::registry::{Controller, Refusal, Registry, SessionId, Token};
use crate::limits::MAX_METADATA;
use crate::shared::SharedStore;
use crate::wire;
use osbuild_resources::{Content, Key, Kind, Phase, Query, Resource, Store};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};
use tokio::sync::watch;
use tonic::Status;

/// All plugins that have a grant.
pub struct Sessions {
    store: Arc<SharedStore>,
    inner: Mutex<Inner>,
    /// Wakes those that wait for controllers.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Inner {
    registry: Registry,
    plugins: BTreeMap<String, Plugin>,
    last_session: u64,
}

struct Plugin {
    rights: Arc<Rights>,
    pace: Pace,
    connections: BTreeMap<SessionId, Connected>,
    /// The finalizers that it has put on the resources of others.
    held: Held,
}

/// Finalizers of a plugin, by the resources that they are on.
type Held = BTreeMap<Key, BTreeSet<String>>;

/// A connection of a plugin.
struct Connected {
    /// The same socket, to close it.
    stream: UnixStream,
    is_started: bool,
    is_introduced: bool,
}

/// The other side of a connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// The plugin.
    pub plugin: Arc<str>,
    /// The connection.
    pub id: SessionId,
}

/// A controller that calls.
pub struct Caller {
    /// Its name, which owns what it writes.
    pub name: String,
    /// Its plugin.
    pub plugin: Arc<str>,
    /// Its inputs and outputs.
    pub access: Access,
    /// The rights of its plugin.
    pub rights: Arc<Rights>,
}

impl Sessions {
    /// No plugin yet.
    pub fn new(store: Arc<SharedStore>) -> Sessions {
        Sessions { store, inner: Mutex::default(), changed: watch::channel(()).0 }
    }

    /// The resources.
    pub fn store(&self) -> &Arc<SharedStore> {
        &self.store
    }

    /// Returns a receiver that wakes up when controllers change, or are asked to reconcile.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds a plugin, or gives it other rights. Then its connections end, and it keeps the
    /// finalizers that it may still put: what it has to undo did not change with its rights.
    pub fn add(&self, name: &str, rights: Rights) {
        let mut inner = self.lock();
        let (held, released) =
            inner.end(name).into_iter().partition(|(key, _)| rights.may_hold(key));
        let (rights, pace, connections) = (Arc::new(rights), Pace::default(), BTreeMap::new());
        inner.plugins.insert(name.to_owned(), Plugin { rights, pace, connections, held });
        drop(inner);
        self.let_go(name, released);
    }

    /// Removes a plugin: it closes its connections, and takes its finalizers from the resources of
    /// others. Those that are its own stay.
    pub fn remove(&self, name: &str) {
        let held = self.lock().end(name);
        self.let_go(name, held);
    }

    /// The names of all plugins.
    pub fn names(&self) -> Vec<String> {
        self.lock().plugins.keys().cloned().collect()
    }

    /// Takes these finalizers of a plugin from the resources of others.
    fn let_go(&self, name: &str, held: Held) {
        for (key, finalizers) in held {
            let released = self
                .store
                .change_finalizers(key.kind(), |held, store| held.take(store, &key, &finalizers));
            if let Err(error) = released {
                eprintln!("error: a finalizer of the plugin `{name}` stays: {error}");
            }
        }
        self.changed.send_replace(());
    }

    /// Begins a session of a plugin over a connection, if it may have one more.
    pub fn connect(&self, plugin: &str, stream: UnixStream) -> Option<Session> {
        let mut inner = self.lock();
        inner.last_session += 1;
        let id = SessionId(inner.last_session);
        let connections = &mut inner.plugins.get_mut(plugin)?.connections;
        if connections.len() >= MAX_CONNECTIONS {
            return None;
        }
        connections.insert(id, Connected { stream, is_started: false, is_introduced: false });
        Some(Session { plugin: plugin.into(), id })
    }

    /// Ends a session, and the registrations of its controllers.
    pub fn disconnect(&self, session: &Session) {
        let mut inner = self.lock();
        if let Some(plugin) = inner.plugins.get_mut(&*session.plugin) {
            plugin.connections.remove(&session.id);
        }
        inner.registry.end(session.id);
        drop(inner);
        self.changed.send_replace(());
    }

    /// Refuses calls that come too fast.
    pub fn admit(&self, session: &Session) -> Result<(), Status> {
        let mut inner = self.lock();
        let plugin = inner.plugins.get_mut(&*session.plugin).ok_or_else(no_grant)?;
        if plugin.pace.admit(Instant::now()) {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!("the plugin `{}` calls too often", session.plugin)))
    }

    /// Notes that the plugin begins.
    pub fn start(&self, session: &Session) -> Result<(), Status> {
        self.lock().connected(session).and_then(|connected| {
            if std::mem::replace(&mut connected.is_started, true) {
                return Err(Status::failed_precondition("the plugin has started already"));
            }
            Ok(())
        })
    }

    /// Ends the controllers of the session, if it has started.
    pub fn stop(&self, session: &Session) -> Result<(), Status> {
        let mut inner = self.lock();
        if !std::mem::take(&mut inner.connected(session)?.is_started) {
            return Err(Status::failed_precondition("the plugin has not started"));
        }
        inner.registry.end(session.id);
        drop(inner);
        self.changed.send_replace(());
        Ok(())
    }

    /// Notes that the plugin calls itself by this name.
    pub fn introduce(&self, session: &Session, name: &str) -> Result<(), Status> {
        if *session.plugin != *name {
            let message = format!("this is the socket of the plugin `{}`", session.plugin);
            return Err(Status::permission_denied(message));
        }
        let mut inner = self.lock();
        let plugin = inner.plugins.get_mut(name).ok_or_else(no_grant)?;
        if plugin.connections.values().any(|one| one.is_introduced) {
            return Err(Status::already_exists(format!("the plugin `{name}` is there already")));
        }
        inner.connected(session)?.is_introduced = true;
        Ok(())
    }

    /// Registers a controller. Returns the token of its calls.
    pub fn register(&self, session: &Session, name: &str, access: Access) -> Result<Token, Status> {
        let token = token()?;
        let mut inner = self.lock();
        inner.connected(session)?;
        if let Some(plugin) = inner.plugin_of(name).filter(|plugin| **plugin != *session.plugin) {
            let message = format!("the name `{name}` is the plugin `{plugin}`'s");
            return Err(Status::permission_denied(message));
        }
        let rights = &inner.plugins.get(&*session.plugin).ok_or_else(no_grant)?.rights;
        rights.check(&access).map_err(Status::permission_denied)?;
        let kinds = rights.output_kinds();
        let register = |registry: &mut Registry| {
            registry.register(name, &session.plugin, access.clone(), token.clone(), session.id)
        };
        let registered = match register(&mut inner.registry) {
            Err(Refusal::TooMany) => {
                let owners = self.store.read(|store| owners(store, &kinds));
                inner.registry.forget(&session.plugin, &owners);
                register(&mut inner.registry)
            }
            registered => registered,
        };
        registered.map_err(|refusal| refused(&refusal))?;
        drop(inner);
        self.changed.send_replace(());
        Ok(token)
    }

    /// The controller that a call with this token is of.
    pub fn caller(&self, session: &Session, token: &str) -> Result<Caller, Status> {
        let inner = self.lock();
        let name = inner.registry.named_by(&Token(token.to_owned()), session.id);
        let controller = name.and_then(|name| Some((name, inner.registry.get(name)?)));
        let plugin = inner.plugins.get(&*session.plugin);
        let (Some((name, controller)), Some(plugin)) = (controller, plugin) else {
            return Err(Status::invalid_argument(
                "no controller has this token on this connection",
            ));
        };
        Ok(Caller {
            name: name.to_owned(),
            plugin: session.plugin.clone(),
            access: controller.access.clone(),
            rights: plugin.rights.clone(),
        })
    }

    /// Gives the caller other inputs.
    pub fn set_access(&self, caller: &Caller, access: Access) -> Result<(), Status> {
        caller.rights.check(&access).map_err(Status::permission_denied)?;
        self.lock().registry.set_access(&caller.name, access);
        self.changed.send_replace(());
        Ok(())
    }

    /// Asks the caller for a reconciliation.
    pub fn ask(&self, caller: &Caller) {
        self.lock().registry.ask(&caller.name);
        self.changed.send_replace(());
    }

    /// The inputs of a session's controller, and how many reconciliations it was asked for. None
    /// once its registration has ended.
    pub fn due(&self, name: &str, session: SessionId) -> Option<(Access, u64)> {
        let Inner { registry, .. } = &*self.lock();
        let asked = registry.asked(name, session)?;
        Some((registry.get(name)?.access.clone(), asked))
    }

    /// Notes that the controller gets a message to reconcile.
    pub fn reconcile(&self, name: &str) {
        self.lock().registry.reconcile(name, SystemTime::now());
    }

    /// The controllers by their names.
    pub fn controllers(&self) -> Vec<(String, Controller)> {
        let inner = self.lock();
        inner.registry.iter().map(|(name, one)| (name.to_owned(), one.clone())).collect()
    }

    /// Whether the plugin of the controller may still write the kind.
    pub fn may_still_write(&self, controller: &str, kind: &Kind) -> bool {
        let Inner { registry, plugins, .. } = &*self.lock();
        let plugin = registry.get(controller).and_then(|one| plugins.get(&one.plugin));
        plugin.is_some_and(|plugin| plugin.rights.output_kinds().contains(kind))
    }

    /// Forgets the controllers of plugins that are gone, except those with resources of these
    /// kinds.
    pub fn forget_the_gone(&self, kinds: &[Kind]) {
        let mut inner = self.lock();
        let Inner { registry, plugins, .. } = &mut *inner;
        let gone = registry.iter().map(|(_, one)| one.plugin.clone());
        let gone: BTreeSet<String> = gone.filter(|name| !plugins.contains_key(name)).collect();
        let owners = self.store.read(|store| owners(store, kinds));
        gone.iter().for_each(|plugin| registry.forget(plugin, &owners));
    }

    /// Refuses a resource of the caller that its plugin has no room for. `old` is the one in whose
    /// place it is.
    pub fn has_room(
        &self,
        caller: &Caller,
        old: Option<&Resource>,
        new: &Content,
    ) -> Result<(), Status> {
        let inner = self.lock();
        let is_own = |owner: &str| {
            inner.registry.get(owner).is_some_and(|one| *one.plugin == *caller.plugin)
        };
        let (mut count, mut bytes) = (0, 0);
        self.store.read(|store| {
            let (kinds, query) = (caller.rights.output_kinds(), Query::default());
            for found in kinds.iter().flat_map(|kind| store.list(kind, &query)) {
                if is_own(&found.owner.0) {
                    (count, bytes) = (count + 1, bytes + found.size());
                }
            }
        });
        let (size, old_size) = (new.size(), old.map_or(0, Resource::size));
        let is_too_many = old.is_none() && count >= MAX_RESOURCES;
        if is_too_many || (size > old_size && bytes - old_size.min(bytes) + size > MAX_BYTES) {
            return Err(Status::resource_exhausted(format!(
                "a plugin has at most {MAX_RESOURCES} resources and {MAX_BYTES} bytes of them"
            )));
        }
        Ok(())
    }

    /// Puts finalizers of the caller on a resource.
    pub fn hold(
        &self,
        caller: &Caller,
        key: &Key,
        finalizers: BTreeSet<String>,
    ) -> Result<(), Status> {
        if finalizers.iter().any(|one| !(1..=MAX_NAME).contains(&one.len())) {
            let message = format!("a finalizer has from one to {MAX_NAME} bytes");
            return Err(Status::invalid_argument(message));
        }
        let mut inner = self.lock();
        let plugin = inner.plugins.get_mut(&*caller.plugin).ok_or_else(no_grant)?;
        plugin.held.retain(|key, _| self.store.read(|store| store.get(key).is_ok()));
        let count: usize = plugin.held.values().map(BTreeSet::len).sum();
        let held = plugin.held.get(key);
        let is_new = |one: &&String| held.is_none_or(|held| !held.contains(*one));
        let new = finalizers.iter().filter(is_new).count();
        // A plugin that connects again puts those that it has again.
        if new > 0 && count + new > MAX_FINALIZERS {
            let message = format!("a plugin has at most {MAX_FINALIZERS} finalizers");
            return Err(Status::resource_exhausted(message));
        }
        let found =
            self.store.read(|store| store.get(key)).map_err(|error| wire::status(&error))?;
        let Content { phase, finalizers: before, .. } = &found.content;
        // It would bring back a setting that the node has taken away already.
        if *phase == Phase::TearingDown && !finalizers.is_subset(before) {
            let message = format!("{key} is being torn down, and takes no other finalizer");
            return Err(Status::failed_precondition(message));
        }
        let all = before.union(&finalizers);
        if all.map(String::len).sum::<usize>() > MAX_METADATA {
            let message = format!("the finalizers of {key} have at most {MAX_METADATA} bytes");
            return Err(Status::resource_exhausted(message));
        }
        let put = self
            .store
            .change_finalizers(key.kind(), |held, store| held.put(store, key, &finalizers));
        put.map_err(|error| wire::status(&error))?;
        plugin.held.entry(key.clone()).or_default().extend(finalizers);
        Ok(())
    }

    /// Takes finalizers from a resource, unless another plugin has put them.
    pub fn release(
        &self,
        caller: &Caller,
        key: &Key,
        finalizers: &BTreeSet<String>,
    ) -> Result<(), Status> {
        let mut inner = self.lock();
        let mut others = inner.plugins.iter().filter(|(name, _)| ***name != *caller.plugin);
        let holds = |plugin: &Plugin| {
            plugin.held.get(key).is_some_and(|held| !held.is_disjoint(finalizers))
        };
        if let Some((other, _)) = others.find(|(_, plugin)| holds(plugin)) {
            let message = format!("the plugin `{other}` has put a finalizer on {key}");
            return Err(Status::permission_denied(message));
        }
        let taken = self
            .store
            .change_finalizers(key.kind(), |held, store| held.take(store, key, finalizers));
        taken.map_err(|error| wire::status(&error))?;
        let plugin = inner.plugins.get_mut(&*caller.plugin).ok_or_else(no_grant)?;
        if let Some(held) = plugin.held.get_mut(key) {
            held.retain(|one| !finalizers.contains(one));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no thread panics while it holds the lock")
    }
}

impl Inner {
    /// The plugin whose controllers alone may have this name: it begins with the plugin's name. The
    /// longest one counts: `net-tools` is a plugin beside `net`.
    fn plugin_of(&self, name: &str) -> Option<&String> {
        let begins = |plugin: &&String| {
            name.strip_prefix(plugin.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '/']))
        };
        self.plugins.keys().filter(begins).max_by_key(|plugin| plugin.len())
    }

    /// Ends a plugin and its connections. Returns the finalizers that it has put.
    fn end(&mut self, name: &str) -> Held {
        let Some(Plugin { connections, held, .. }) = self.plugins.remove(name) else {
            return Held::new();
        };
        for (session, connected) in connections {
            self.registry.end(session);
            // It may be closed already.
            let _ = connected.stream.shutdown(Shutdown::Both);
        }
        held
    }

    fn connected(&mut self, session: &Session) -> Result<&mut Connected, Status> {
        let plugin = self.plugins.get_mut(&*session.plugin);
        plugin.and_then(|plugin| plugin.connections.get_mut(&session.id)).ok_or_else(no_grant)
    }
}

fn no_grant() -> Status {
    Status::permission_denied("the grant of this connection is gone")
}

fn refused(refusal: &Refusal) -> Status {
    let message = refusal.to_string();
    match refusal {
        Refusal::InvalidName => Status::invalid_argument(message),
        Refusal::NameInUse(_) | Refusal::OutputInUse { .. } => Status::already_exists(message),
        Refusal::TooMany => Status::resource_exhausted(message),
    }
}

/// The owners of the resources of these kinds.
fn owners(store: &Store, kinds: &[Kind]) -> BTreeSet<String> {
    let query = Query::default();
    let found = kinds.iter().flat_map(|kind| store.list(kind, &query));
    found.map(|found| found.owner.0.clone()).collect()
}

/// A secret that nobody can guess.
fn token() -> Result<Token, Status> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| Status::unavailable(format!("cannot get random bytes: {error}")))?;
    Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}
