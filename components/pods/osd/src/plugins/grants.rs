//! Gives each plugin with a grant its socket and its types, and takes them back.

use super::grant::{Grant, Rights};
use super::sessions::Sessions;
use super::socket::{self, Accepted};
use super::{PLUGINS, status};
use crate::catalog;
use crate::client_type::ClientType;
use crate::settings::spec;
use futures_util::future::{AbortHandle, abortable, select};
use osbuild_cosi::v1::PluginGrantSpec;
use osbuild_failure::{Explain, Outcome};
use osbuild_resources::{Definition, Kind, Owner, Phase, Query};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{sleep, timeout};

/// How long a status may be behind, and the pause before a socket that could not be made is tried
/// again.
const REFRESH: Duration = Duration::from_secs(5);

/// The least pause between two looks at grants and controllers.
const PAUSE: Duration = Duration::from_millis(20);

/// The plugins as grants have them.
pub struct Grants {
    sessions: Arc<Sessions>,
    folder: PathBuf,
    accepted: Accepted,
    test_plugin: Option<String>,
    served: BTreeMap<String, Served>,
    /// The types of plugins, each with a definition.
    defined: BTreeSet<String>,
    /// The error that was printed last.
    printed: String,
}

/// A plugin that can connect.
struct Served {
    rights: Rights,
    listener: AbortHandle,
}

impl Grants {
    /// Serves plugins in the folder. Folders of plugins that have no grant any more are removed.
    pub fn new(
        sessions: Arc<Sessions>,
        folder: PathBuf,
        accepted: Accepted,
        test_plugin: Option<String>,
    ) -> Outcome<Grants> {
        let (served, defined, printed) = (BTreeMap::new(), BTreeSet::new(), String::new());
        let grants = Grants { sessions, folder, accepted, test_plugin, served, defined, printed };
        remove_others(&grants.folder, &grants.wanted())?;
        Ok(grants)
    }

    /// Follows the grants until the process ends.
    pub async fn run(mut self) {
        let mut grants = self.sessions.store().changes(&ClientType::Grant.kind());
        let mut controllers = self.sessions.changes();
        loop {
            grants.borrow_and_update();
            controllers.borrow_and_update();
            self.follow();
            self.clear();
            status::write(&self.sessions);
            sleep(PAUSE).await;
            let (of_grants, of_controllers) = (pin!(grants.changed()), pin!(controllers.changed()));
            // Without a change it is time for another look.
            let _ = timeout(REFRESH, select(of_grants, of_controllers)).await;
        }
    }

    /// The rights of each plugin, by its name: from the valid grants, and all for the test plugin.
    fn wanted(&self) -> BTreeMap<String, Rights> {
        let (kind, query) = (ClientType::Grant.kind(), Query::default());
        let found: Vec<_> = self.sessions.store().read(|store| store.list(&kind, &query).collect());
        let running = found.iter().filter(|found| found.content.phase == Phase::Running);
        let granted = running.filter_map(|found| {
            let name = found.content.key.id();
            let spec: PluginGrantSpec = spec::read_as(&found.content.spec, Ok).ok()?;
            Some((name.to_owned(), Rights::Grant(Grant::new(name, &spec).ok()?)))
        });
        let test_plugin = self.test_plugin.iter().map(|name| (name.clone(), Rights::Everything));
        granted.chain(test_plugin).collect()
    }

    /// Adds and removes plugins. One whose grant has changed has to connect again, and keeps the
    /// finalizers that it may still put.
    fn follow(&mut self) {
        let wanted = self.wanted();
        let is_wanted = |name: &String, one: &Served| wanted.get(name) == Some(&one.rights);
        let served = std::mem::take(&mut self.served);
        let (kept, ended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            served.into_iter().partition(|(name, one)| is_wanted(name, one));
        self.served = kept;
        for (name, Served { listener, .. }) in ended {
            // A plugin that connects again at once must not come to the old socket.
            let folder = self.folder.join(&name);
            let closed = socket::close(&folder);
            self.report(closed);
            listener.abort();
            match wanted.get(&name) {
                Some(rights) => self.sessions.add(&name, rights.clone()),
                None => self.report(socket::remove(&folder)),
            }
        }
        // Also those without a socket, as none could be made since their grant has changed.
        let mut gone = self.sessions.names();
        gone.retain(|name| !wanted.contains_key(name));
        gone.iter().for_each(|name| self.sessions.remove(name));
        self.define(&wanted);
        for (name, rights) in wanted {
            if !self.served.contains_key(&name) {
                let served = self.serve(name, rights);
                self.report(served);
            }
        }
    }

    fn serve(&mut self, name: String, rights: Rights) -> Outcome<()> {
        let listener = socket::listen(&self.folder.join(&name))?;
        self.sessions.add(&name, rights.clone());
        let (sessions, accepted) = (self.sessions.clone(), self.accepted.clone());
        let accept = socket::accept(listener, name.clone(), sessions, accepted);
        let (accept, listener) = abortable(accept);
        tokio::spawn(accept);
        self.served.insert(name, Served { rights, listener });
        Ok(())
    }

    /// Publishes the definitions of all outputs. If two grants have the same one, the first plugin
    /// decides about columns. The types of two grants may differ only in case: then they have one
    /// definition.
    fn define(&mut self, wanted: &BTreeMap<String, Rights>) {
        let definitions = wanted.values().filter_map(|rights| match rights {
            Rights::Grant(grant) => grant.definitions().ok(),
            Rights::Everything => None,
        });
        let mut all: BTreeMap<String, Definition> = BTreeMap::new();
        for definition in definitions.flatten() {
            all.entry(definition.id()).or_insert(definition);
        }
        for definition in all.values() {
            let store = self.sessions.store();
            let published = catalog::define(store, definition).explain("define a type");
            self.report(published);
        }
        let kinds = wanted.values().flat_map(Rights::output_kinds);
        self.defined.extend(kinds.map(|kind| kind.type_name().to_owned()));
    }

    /// Destroys what no plugin can write any more, and the definitions of types that are nobody's.
    fn clear(&mut self) {
        let kinds = self.defined.iter().filter_map(|name| Kind::new(PLUGINS, name).ok());
        let kinds: Vec<Kind> = kinds.collect();
        self.sessions.forget_the_gone(&kinds);
        for kind in kinds {
            let (store, query) = (self.sessions.store().clone(), Query::default());
            let found: Vec<_> = store.read(|store| store.list(&kind, &query).collect());
            for found in &found {
                let Owner(owner) = &found.owner;
                if !self.sessions.may_still_write(owner, &kind) {
                    let (key, now) = (&found.content.key, SystemTime::now());
                    let destroyed = store.write_beside(&kind, |store| {
                        store.tear_down_and_destroy(key, &found.owner, now)
                    });
                    let destroyed = destroyed.map(drop);
                    self.report(destroyed.explain("destroy what a plugin has left"));
                }
            }
            let granted = || self.served.values().flat_map(|one| one.rights.output_kinds());
            if found.is_empty() && !granted().any(|granted| granted == kind) {
                self.defined.remove(kind.type_name());
                let is_same = |other: &String| other.eq_ignore_ascii_case(kind.type_name());
                if !self.defined.iter().any(is_same) {
                    let undefined = catalog::undefine(&store, kind.type_name());
                    self.report(undefined.explain("take a definition back"));
                }
            }
        }
    }

    fn report(&mut self, outcome: Outcome<()>) {
        if let Err(error) = outcome.map_err(|failure| failure.to_string())
            && error != self.printed
        {
            eprintln!("error: {error}");
            self.printed = error;
        }
    }
}

/// Removes the folders of an earlier process whose plugins have no grant any more.
fn remove_others(folder: &Path, wanted: &BTreeMap<String, Rights>) -> Outcome<()> {
    let entries = fs::read_dir(folder).explain(format_args!("read `{}`", folder.display()))?;
    for entry in entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir()) {
        let is_wanted = entry.file_name().to_str().is_some_and(|name| wanted.contains_key(name));
        if !is_wanted && let Err(failure) = socket::remove(&entry.path()) {
            eprintln!("error: {failure}");
        }
    }
    Ok(())
}
