//! Holds the host to the settings in the store, through `init`: it applies what they say, withdraws
//! what they no longer say, and writes their statuses. It compares all of them after each change,
//! so nothing is lost when it or `init` was away.

use crate::adopt;
use crate::init::Init;
use crate::keeper::Keeper;
use crate::settings::{Report, TYPES, Wanted};
use crate::shared::SharedStore;
use futures_util::future::select_all;
use osbuild_protocol::{
    Client, ClientError, HostSettings, Observed, RefusalCode, Request, Setting, SettingName,
    StartSettings, TryState,
};
use osbuild_ranks::Source;
use osbuild_resources::{Content, Error, Expected, Key, Kind, Owner, Phase, Query, Spec, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// Whose the settings are that `init` holds and the store has lost.
const INIT: &str = "init";

/// The pause before `init` is asked again, when it could not be reached.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a status may be behind, such as when the network has given another name server.
const REFRESH: Duration = Duration::from_secs(5);

/// Why `init` does not hold a setting while it starts the node.
const LEFT_OUT: &str = "starts with it have failed, and the node is not ready yet";

/// The owner of the statuses.
const OWNER: &str = "host";

/// The resources, and `init`.
pub struct Host {
    /// The resources.
    pub store: Arc<SharedStore>,
    /// The writer of the files that keep the resources, if they are kept.
    pub keeper: Option<Arc<Keeper>>,
    /// `init`.
    pub init: Arc<Init>,
}

/// The statuses of a kind by their identifiers.
pub type Statuses = BTreeMap<String, Spec>;

/// The statuses of the settings, and the settings with which the node has started.
pub struct Applied {
    statuses: Vec<(Kind, Statuses)>,
    start: StartSettings,
}

impl Host {
    /// Acts until the process ends. If `adopts`, the store begins with what `init` holds.
    pub async fn run(self, adopts: bool) {
        if adopts {
            self.adopt().await;
        }
        let mut changes: Vec<_> = TYPES.iter().map(|one| self.store.changes(&one.kind())).collect();
        loop {
            changes.iter_mut().for_each(|one| drop(one.borrow_and_update()));
            let applied = self.persist(apply).await;
            for (kind, statuses) in applied.statuses {
                publish(&self.store, OWNER, &kind, statuses);
            }
            if applied.start == StartSettings::GoneBack && self.take_note().await {
                continue;
            }
            let changed = changes.iter_mut().map(|one| Box::pin(one.changed()));
            // The store has the senders while there are receivers.
            let _ = timeout(REFRESH, select_all(changed)).await;
        }
    }

    /// Adds what `init` holds to the store. Changes that are tried are taken back first, and
    /// earlier settings with which the node only starts are not taken for its own.
    async fn adopt(&self) {
        let held = loop {
            let HostSettings { start, settings, .. } = self.persist(without_try).await;
            self.store.set_start(start);
            if start != StartSettings::Earlier {
                break settings;
            }
            tokio::time::sleep(PAUSE).await;
        };
        adopt::adopt(&self.store, &held);
        self.keep().await;
    }

    /// Keeps that `init` has gone back, so that no later start undoes it, and tells `init` so.
    /// Returns whether that worked.
    async fn take_note(&self) -> bool {
        if !self.keep().await {
            return false;
        }
        eprintln!("note: the node has gone back to earlier settings");
        self.persist(|client, _| acknowledge(client)).await;
        true
    }

    /// Keeps what `init` holds as a generation of its own. Returns whether that worked.
    async fn keep(&self) -> bool {
        self.store.record_generation(INIT);
        let Some(keeper) = &self.keeper else { return true };
        let kept = keeper.keep().await;
        if let Err(status) = &kept {
            eprintln!("error: {}", status.message());
        }
        kept.is_ok()
    }

    /// Talks with `init` until that succeeds.
    async fn persist<T: Send + 'static>(
        &self,
        talk: fn(&mut Client, &SharedStore) -> Result<T, ClientError>,
    ) -> T {
        let mut printed = String::new();
        loop {
            let store = self.store.clone();
            match self.init.converse(move |client| talk(client, &store)).await {
                Ok(found) => return found,
                Err(error) => {
                    let error = error.to_string();
                    if error != printed {
                        eprintln!("error: cannot change the settings of the host: {error}");
                        printed = error;
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The settings of `init`, after the end of a try.
fn without_try(client: &mut Client, _: &SharedStore) -> Result<HostSettings, ClientError> {
    if client.settings()?.tried != TryState::None {
        acknowledge(client)?;
    }
    client.settings()
}

/// Tells `init` that its settings are known. If there is nothing that it wants a client to know, it
/// has heard so before, and the reply was lost.
fn acknowledge(client: &mut Client) -> Result<(), ClientError> {
    match client.send(&Request::RevertTry) {
        Err(ClientError::Refused(refusal)) if refusal.code == RefusalCode::NoTry => Ok(()),
        other => other,
    }
}

/// Has `init` hold exactly the settings of the store; or the store those of `init`, if that has
/// gone back to earlier ones.
pub fn apply(client: &mut Client, store: &SharedStore) -> Result<Applied, ClientError> {
    let HostSettings { tried, start, settings: held, .. } = client.settings()?;
    store.set_start(start);
    agree_on_try(client, store, tried)?;
    if start == StartSettings::GoneBack
        && let Err(error) = adopt::go_back(store, &held)
    {
        eprintln!("error: a resource is not as it was before: {error}");
    }
    let wanted = store.read(|store| TYPES.each_ref().map(|one| one.wanted(store)));
    let settings: Vec<&Setting> =
        wanted.iter().flatten().flat_map(|wanted| &wanted.settings).collect();
    let errors = match start {
        StartSettings::Newest => {
            let errors = bring_about(client, &settings, |name| is_unclear(&wanted, name))?;
            store.set_refused(errors.keys().cloned().collect());
            errors
        }
        StartSettings::Earlier | StartSettings::GoneBack => left_out(&held, &settings),
    };
    let HostSettings { settings: observed, pods, wireguard, cluster, .. } = client.settings()?;
    let statuses = TYPES.iter().zip(&wanted).map(|(one, wanted): (_, &Vec<Wanted>)| {
        let (observed, errors) = (&observed, &errors);
        let (pods, wireguard, cluster) = (&pods, &wireguard, cluster.as_ref());
        let report = Report { wanted, observed, errors, pods, wireguard, cluster };
        (one.status_kind(), one.statuses(&report))
    });
    Ok(Applied { statuses: statuses.collect(), start })
}

/// The errors of settings that `init` does not hold, as the node has started with earlier ones.
fn left_out(held: &[Observed], settings: &[&Setting]) -> BTreeMap<SettingName, String> {
    let is_held = |setting: &Setting| held.iter().any(|one| one.wanted.as_ref() == Some(setting));
    let left_out = settings.iter().filter(|setting| !is_held(setting));
    left_out.map(|setting| (setting.name(), LEFT_OUT.to_owned())).collect()
}

/// Takes back what `init` has taken back, as the time of the try is over. A try that `osd` does not
/// know is of an earlier process: it is over, too.
fn agree_on_try(
    client: &mut Client,
    store: &SharedStore,
    tried: TryState,
) -> Result<(), ClientError> {
    match (store.is_trying(), tried) {
        (true, TryState::Running(_)) | (false, TryState::None) => return Ok(()),
        (_, TryState::Running(_) | TryState::Over) => client.send(&Request::RevertTry)?,
        (true, TryState::None) => {}
    }
    if let Err(error) = store.take_back() {
        eprintln!("error: a resource is not as it was before the try: {error}");
    }
    Ok(())
}

/// Whether a resource that cannot be read may request a setting: one of its type. `wanted` has the
/// resources of each of [`TYPES`].
fn is_unclear(wanted: &[Vec<Wanted>], name: &SettingName) -> bool {
    TYPES.iter().zip(wanted).any(|(one, wanted)| {
        (one.covers)(name) && wanted.iter().any(|wanted| wanted.unreadable.is_some())
    })
}

/// Withdraws what no resource requests, unless that `is_unclear`, and applies the settings. Returns
/// why some of them are not set.
fn bring_about(
    client: &mut Client,
    settings: &[&Setting],
    is_unclear: impl Fn(&SettingName) -> bool,
) -> Result<BTreeMap<SettingName, String>, ClientError> {
    let HostSettings { settings: observed, .. } = client.settings()?;
    for held in observed.iter().filter(|observed| observed.wanted.is_some()) {
        let is_requested = settings.iter().any(|setting| setting.name() == held.name);
        if !is_requested && !is_unclear(&held.name) {
            client.send(&Request::Withdraw(held.name.clone()))?;
        }
    }
    // A value of a person at a console may be in effect instead. One that `init` refuses has no
    // source.
    let is_held = |setting: &Setting| {
        let held = observed.iter().find(|observed| observed.wanted.as_ref() == Some(setting));
        held.is_some_and(|held| held.source >= Some(Source::Api))
    };
    let mut errors = BTreeMap::new();
    for setting in settings.iter().filter(|setting| !is_held(setting)) {
        match client.send(&Request::Apply((*setting).clone())) {
            Ok(()) => {}
            Err(ClientError::Refused(refusal)) if is_about_setting(refusal.code) => {
                errors.insert(setting.name(), refusal.reason);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(errors)
}

/// Whether a refusal is about the setting: others are about the moment.
fn is_about_setting(code: RefusalCode) -> bool {
    !matches!(code, RefusalCode::Busy | RefusalCode::NoTry)
}

/// Replaces the statuses of a kind in the store, all of which belong to the owner.
pub fn publish(store: &SharedStore, owner: &str, kind: &Kind, statuses: Statuses) {
    let mut replaced = Ok(());
    // Watches wake also if one of several statuses cannot be written.
    let written = store.write(kind, |store| {
        replaced = replace(store, owner, kind, statuses);
        Ok(())
    });
    if let Err(error) = written.and(replaced) {
        eprintln!("error: cannot write a status: {error}");
    }
}

fn replace(
    store: &mut Store,
    owner: &str,
    kind: &Kind,
    mut statuses: Statuses,
) -> Result<(), Error> {
    let (owner, query, now) = (Owner(owner.to_owned()), Query::default(), SystemTime::now());
    let found: Vec<_> = store.list(kind, &query).collect();
    // One that fails keeps none of the others from being written.
    let mut outcome = Ok(());
    for found in found {
        let key = &found.content.key;
        // One that is being torn down is destroyed before there is another in its place.
        let spec = statuses.remove(key.id()).filter(|_| found.content.phase == Phase::Running);
        outcome = outcome.and(match spec {
            None => store.withdraw(key, &owner, now),
            Some(spec) if spec == found.content.spec => Ok(()),
            Some(spec) => {
                let content = Content { spec, ..found.content.clone() };
                let expected =
                    Expected { version: Some(found.version), owner: owner.clone(), phase: None };
                store.update(content, expected, now).map(drop)
            }
        });
    }
    for (id, spec) in statuses {
        let Ok(key) = Key::new(kind.clone(), &id) else { continue };
        let created = store.create(Content::new(key, spec), owner.clone(), now);
        outcome = outcome.and(created.map(drop));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_init::FakeInit;

    /// A setting as `init` holds it for requests, with the source that is in effect.
    fn held(line: &str, source: Source) -> Observed {
        let wanted = Setting::parse(line).unwrap();
        let (name, current, error) = (wanted.name(), wanted.shown(), String::new());
        Observed { name, wanted: Some(wanted), source: Some(source), current, error }
    }

    fn create(store: &SharedStore, type_name: &str, id: &str, yaml: &str) {
        let kind = Kind::new("system", type_name).unwrap();
        let spec = Spec { yaml: yaml.to_owned(), ..Spec::default() };
        let content = Content::new(Key::new(kind.clone(), id).unwrap(), spec);
        let now = SystemTime::now();
        store.write(&kind, |store| store.create(content, Owner::default(), now)).unwrap();
    }

    /// Compares the store with `init` once.
    async fn applied(init: &FakeInit, store: &Arc<SharedStore>) -> Applied {
        let store = store.clone();
        init.init().converse(move |client| apply(client, &store)).await.unwrap()
    }

    #[tokio::test]
    async fn a_resource_of_a_later_release_costs_no_setting_of_its_type() {
        let init = FakeInit::start(|_| {});
        let [mtu, name] = ["link eth0 mtu 1400", "host-name edge-7"];
        init.state().settings = vec![held(mtu, Source::Api), held(name, Source::Api)];
        let store = Arc::new(SharedStore::new().unwrap());
        create(&store, "Links.osbuild", "uplink", "{link: eth0, mtu: 1400, future: x}");
        let Applied { statuses, .. } = applied(&init, &store).await;
        assert_eq!(init.state().requests, ["withdraw host-name"], "no resource has this name");
        let links = TYPES.iter().find(|one| one.names.plural == "Links").unwrap().status_kind();
        let (_, statuses) = statuses.iter().find(|(kind, _)| *kind == links).unwrap();
        let status = &statuses["uplink"].yaml;
        assert!(status.contains("cannot read the resource") && status.contains("set: false"));
    }

    #[tokio::test]
    async fn a_setting_that_is_held_is_withdrawn_when_it_is_released() {
        let init = FakeInit::start(|_| {});
        init.state().settings = vec![held("host-name edge-7", Source::Api)];
        let store = Arc::new(SharedStore::new().unwrap());
        create(&store, "Hostnames.osbuild", "name", "hostname: edge-7");
        let (nobody, now) = (Owner::default(), SystemTime::now());
        let key = Key::new(Kind::new("system", "Hostnames.osbuild").unwrap(), "name").unwrap();
        let hold = |finalizers: &[&str]| {
            let found = store.read(|store| store.get(&key)).unwrap();
            let finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
            let content = Content { finalizers, ..found.content.clone() };
            let expected = Expected { version: Some(found.version), ..Expected::default() };
            store.write(key.kind(), |store| store.update(content, expected, now)).unwrap();
        };
        hold(&["plugin"]);
        store.write(key.kind(), |store| store.tear_down(&key, &nobody, now)).unwrap();
        applied(&init, &store).await;
        assert_eq!(init.state().requests, [""; 0], "the plugin undoes something first");
        hold(&[]);
        applied(&init, &store).await;
        assert_eq!(init.state().requests, ["withdraw host-name"]);
    }

    #[tokio::test]
    async fn a_setting_that_the_console_outranks_is_not_applied_again() {
        let init = FakeInit::start(|_| {});
        let store = Arc::new(SharedStore::new().unwrap());
        create(&store, "Hostnames.osbuild", "name", "hostname: edge-7");
        for (source, requests) in
            [(Source::Console, 0), (Source::Api, 0), (Source::Document, 1), (Source::Image, 2)]
        {
            init.state().settings = vec![held("host-name edge-7", source)];
            applied(&init, &store).await;
            assert_eq!(init.state().requests.len(), requests, "{source:?}");
        }
    }

    #[tokio::test]
    async fn what_init_knows_already_is_acknowledged() {
        let init = FakeInit::start(|_| {});
        init.state().start = StartSettings::GoneBack;
        for _ in 0..2 {
            init.init().converse(acknowledge).await.unwrap();
            assert_eq!(init.state().start, StartSettings::Newest);
        }
    }

    /// The settings of a host that begins with those of `init`, and what it has asked of it.
    async fn adopted(init: &FakeInit, changes: impl AsyncFn()) -> (Vec<String>, Vec<String>) {
        let store = Arc::new(SharedStore::new().unwrap());
        let host = Host { store: store.clone(), keeper: None, init: init.init() };
        tokio::join!(host.adopt(), changes());
        let wanted = store.read(|store| TYPES.each_ref().map(|one| one.wanted(store)));
        let settings = wanted.iter().flatten().flat_map(|wanted| &wanted.settings);
        (settings.map(Setting::to_string).collect(), init.state().requests.clone())
    }

    #[tokio::test]
    async fn what_is_tried_is_taken_back_before_it_is_adopted() {
        let init = FakeInit::start(|_| {});
        init.state().tried = Some(60);
        init.state().settings = vec![held("host-name tried", Source::Api)];
        init.state().before = vec![held("host-name edge-7", Source::Api)];
        let (settings, requests) = adopted(&init, async || {}).await;
        assert_eq!((settings, requests), (vec!["host-name edge-7".into()], vec!["revert".into()]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_settings_of_a_start_are_adopted_if_the_node_stays_with_them() {
        let init = FakeInit::start(|_| {});
        init.state().start = StartSettings::Earlier;
        init.state().settings = vec![held("host-name earlier", Source::Api)];
        let goes_on = async || {
            tokio::time::sleep(10 * PAUSE).await;
            init.state().settings = vec![held("host-name newest", Source::Api)];
            init.state().start = StartSettings::Newest;
        };
        let (settings, _) = adopted(&init, goes_on).await;
        assert_eq!(settings, ["host-name newest"]);
    }

    #[test]
    fn a_status_changes_only_when_it_says_something_else() {
        let store = SharedStore::new().unwrap();
        let kind = TYPES[0].status_kind();
        let key = Key::new(kind.clone(), "node").unwrap();
        let statuses = |yaml: &str| {
            let spec = Spec { yaml: yaml.to_owned(), ..Spec::default() };
            Statuses::from([("node".to_owned(), spec)])
        };
        let version = || store.read(|store| store.get(&key)).unwrap().version.to_string();
        publish(&store, OWNER, &kind, statuses("hostname: a"));
        publish(&store, OWNER, &kind, statuses("hostname: a"));
        assert_eq!(version(), "1");
        publish(&store, OWNER, &kind, statuses("hostname: b"));
        assert_eq!(version(), "2");
        publish(&store, OWNER, &kind, Statuses::new());
        assert!(store.read(|store| store.get(&key)).is_err());
    }

    #[test]
    fn a_finalizer_on_one_status_keeps_none_of_the_others_from_changing() {
        let store = SharedStore::new().unwrap();
        let kind = TYPES[0].status_kind();
        let key = |id: &str| Key::new(kind.clone(), id).unwrap();
        let statuses = |ids: &[&str]| {
            ids.iter().map(|id| ((*id).to_owned(), Spec::default())).collect::<Statuses>()
        };
        publish(&store, OWNER, &kind, statuses(&["held"]));
        let held = store.read(|store| store.get(&key("held"))).unwrap();
        let finalizers = ["plugin".to_owned()].into();
        let content = Content { finalizers, ..held.content.clone() };
        let expected =
            Expected { version: Some(held.version), owner: Owner(OWNER.to_owned()), phase: None };
        store.write(&kind, |store| store.update(content, expected, SystemTime::now())).unwrap();

        publish(&store, OWNER, &kind, statuses(&["new"]));
        assert!(store.read(|store| store.get(&key("new"))).is_ok());
        let held = store.read(|store| store.get(&key("held"))).unwrap();
        assert_eq!(held.content.phase, Phase::TearingDown, "the plugin hears of its end");
    }
}
