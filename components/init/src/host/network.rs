//! The settings of addresses, routes and links. `init` ranks them, and the pod that configures
//! links holds the host to them: PID 1 speaks no netlink. It is pure.

use std::collections::BTreeMap;
use std::mem::discriminant;

use osbuild_protocol::{
    LinkName, MAX_NETWORK_SETTINGS, MadeLink, Mtu, NetworkName, NetworkSetting, NetworkSettings,
    Observed, Refusal, RefusalCode, SecretKey, Setting, SettingName, WireGuardState,
};
use osbuild_ranks::{Ranked, Source};

use crate::data::secret::NodeSecret;

/// The settings that have a value of any source.
#[derive(Default)]
pub struct Network {
    held: BTreeMap<NetworkName, Held>,
    /// The MTU that links had before, as the pod has reported it.
    former_mtus: BTreeMap<LinkName, Mtu>,
    /// The states of links of WireGuard, as the pod has reported them.
    wireguard: BTreeMap<LinkName, WireGuardState>,
    /// How often the settings in effect have changed.
    changes: u64,
    /// The secret of the node, once it was read.
    secret: Option<NodeSecret>,
}

#[derive(Default)]
struct Held {
    values: Ranked<NetworkSetting>,
    /// The report of the pod, if there is one: the setting that the host has, or the error.
    reported: Option<Result<NetworkSetting, String>>,
    /// The first revision with the value in effect.
    since: u64,
}

impl Network {
    /// Gives a setting the value of `source`.
    ///
    /// # Errors
    /// There are too many of its kind.
    pub fn apply(&mut self, source: Source, setting: &NetworkSetting) -> Result<(), Refusal> {
        let name = setting.name();
        let same = self.held.keys().filter(|held| discriminant(*held) == discriminant(&name));
        let same = same.count();
        if !self.held.contains_key(&name) && same >= MAX_NETWORK_SETTINGS {
            let kind = name.kind().word();
            let reason = format!("{MAX_NETWORK_SETTINGS} settings of the kind `{kind}` are set");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        self.set(source, name, Some(setting.clone()));
        Ok(())
    }

    /// Withdraws the value of `source`, so that the next one is in effect.
    pub fn withdraw(&mut self, source: Source, name: &NetworkName) {
        if self.held.contains_key(name) {
            self.set(source, name.clone(), None);
        }
    }

    fn set(&mut self, source: Source, name: NetworkName, value: Option<NetworkSetting>) {
        let mut held = self.held.remove(&name).unwrap_or_default();
        let before = held.effective().cloned();
        held.values.set(source, value);
        if held.effective() != before.as_ref() {
            held.reported = None;
            self.changes += 1;
            held.since = self.revision();
            if let NetworkName::Made(link) = &name {
                self.wireguard.remove(link);
            }
        }
        if held.effective().is_some() {
            self.held.insert(name, held);
        }
    }

    /// The revision of [`Self::wanted`]: never 0, with which a client begins.
    pub fn revision(&self) -> u64 {
        self.changes + 1
    }

    /// The settings that the pod has to apply.
    pub fn wanted(&self) -> NetworkSettings {
        let former_mtus = self.former_mtus.iter().map(|(link, mtu)| (link.clone(), *mtu));
        NetworkSettings {
            revision: self.revision(),
            settings: self.held.values().filter_map(Held::effective).cloned().collect(),
            former_mtus: former_mtus.collect(),
            own_keys: self.own_keys(),
        }
    }

    /// Keys for links of WireGuard whose settings have none.
    fn own_keys(&self) -> Vec<(LinkName, SecretKey)> {
        let Some(secret) = &self.secret else { return Vec::new() };
        let settings = self.held.values().filter_map(Held::effective);
        let links = settings.filter_map(|setting| match setting {
            NetworkSetting::Made(link, MadeLink::WireGuard(made)) => {
                made.private_key().is_none().then_some(link)
            }
            _ => None,
        });
        links.map(|link| (link.clone(), secret.wireguard_key(link))).collect()
    }

    /// The node makes its keys from this secret.
    pub fn set_secret(&mut self, secret: NodeSecret) {
        self.secret = Some(secret);
    }

    /// Takes note that the host has a setting. An outdated report changes nothing.
    pub fn on_set(&mut self, setting: NetworkSetting) {
        if let Some(held) = self.held.get_mut(&setting.name())
            && held.effective() == Some(&setting)
        {
            held.reported = Some(Ok(setting));
        }
    }

    /// Takes note that the host does not have a setting. `known` is the newest revision that the
    /// pod was given. The report names no value: it is outdated, and changes nothing, if the value
    /// in effect is younger. The pod reports each setting again once it has that.
    pub fn on_failed(&mut self, name: &NetworkName, reason: String, known: u64) {
        if let Some(held) = self.held.get_mut(name)
            && held.since <= known
        {
            held.reported = Some(Err(reason));
        }
    }

    /// Takes note of the state of a link of WireGuard. Only those of settings have one, so their
    /// number is bounded.
    ///
    /// # Errors
    /// No setting makes such a link.
    pub fn on_wireguard(&mut self, state: WireGuardState) -> Result<(), Refusal> {
        let held = self.held.get(&NetworkName::Made(state.link.clone()));
        match held.and_then(Held::effective) {
            Some(NetworkSetting::Made(_, MadeLink::WireGuard(_))) => {
                self.wireguard.insert(state.link.clone(), state);
                Ok(())
            }
            _ => {
                let reason = format!("no setting makes a link of WireGuard `{}`", state.link);
                Err(Refusal::new(RefusalCode::Failed, reason))
            }
        }
    }

    /// The states of links of WireGuard.
    pub fn wireguard(&self) -> impl Iterator<Item = &WireGuardState> {
        self.wireguard.values()
    }

    /// Remembers or forgets the MTU that a link had. Only links with a setting have one, so their
    /// number is bounded.
    ///
    /// # Errors
    /// The link has no such setting.
    pub fn on_former_mtu(&mut self, link: LinkName, mtu: Option<Mtu>) -> Result<(), Refusal> {
        match mtu {
            None => drop(self.former_mtus.remove(&link)),
            Some(_) if !self.held.contains_key(&NetworkName::Mtu(link.clone())) => {
                let reason = format!("`{link}` has no setting of its MTU");
                return Err(Refusal::new(RefusalCode::Failed, reason));
            }
            Some(_) if self.former_mtus.len() >= MAX_NETWORK_SETTINGS => {
                let reason = format!("{MAX_NETWORK_SETTINGS} links have a former MTU already");
                return Err(Refusal::new(RefusalCode::Failed, reason));
            }
            // A pod that starts again finds the MTU of the setting.
            Some(mtu) => drop(self.former_mtus.entry(link).or_insert(mtu)),
        }
        Ok(())
    }

    /// Each setting: what requests have set, and what the host has.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.held.iter().map(|(name, held)| Observed {
            name: SettingName::Network(name.clone()),
            wanted: held.values.get(Source::Api).cloned().map(Setting::Network),
            source: held.values.effective().map(|(source, _)| source),
            current: match &held.reported {
                Some(Ok(setting)) => setting.shown(),
                _ => String::new(),
            },
            error: match &held.reported {
                Some(Err(reason)) => reason.clone(),
                _ => String::new(),
            },
        })
    }

    /// The settings that shall be in effect, with their sources.
    pub fn in_effect(&self) -> impl Iterator<Item = (Source, NetworkSetting)> {
        let effective = self.held.values().filter_map(|held| held.values.effective());
        effective.map(|(source, setting)| (source, setting.clone()))
    }

    /// The settings with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = NetworkSetting> {
        self.held.values().filter_map(move |held| held.values.get(source).cloned())
    }
}

impl Held {
    fn effective(&self) -> Option<&NetworkSetting> {
        self.values.effective().map(|(_, setting)| setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(line: &str) -> NetworkSetting {
        match Setting::parse(line) {
            Ok(Setting::Network(setting)) => setting,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn wanted(network: &Network) -> Vec<String> {
        let wanted = network.wanted().settings.into_iter();
        wanted.map(|setting| Setting::Network(setting).to_string()).collect()
    }

    const DOCUMENT: &str = "route 0.0.0.0/0 512 via 192.0.2.1 on eth0";
    const API: &str = "route 0.0.0.0/0 512 via 192.0.2.2 on eth0";

    #[test]
    fn a_request_outranks_the_document_which_is_back_when_it_goes() {
        let mut network = Network::default();
        network.apply(Source::Api, &setting(API)).unwrap();
        network.apply(Source::Document, &setting(DOCUMENT)).unwrap();
        network.apply(Source::Document, &setting("address eth0 192.0.2.7 24")).unwrap();
        assert_eq!(wanted(&network), ["address eth0 192.0.2.7 24", API]);
        network.withdraw(Source::Api, &setting(API).name());
        assert_eq!(wanted(&network), ["address eth0 192.0.2.7 24", DOCUMENT]);
        network.withdraw(Source::Document, &setting(API).name());
        assert_eq!(wanted(&network), ["address eth0 192.0.2.7 24"]);
    }

    #[test]
    fn a_link_has_the_whole_description_of_one_source() {
        let (vlan, bridge) = ("link a made vlan id=5 parent=eth0", "link a made bridge ports=eth1");
        let mut network = Network::default();
        network.apply(Source::Document, &setting(vlan)).unwrap();
        network.apply(Source::Api, &setting(bridge)).unwrap();
        assert_eq!(wanted(&network), [bridge]);
        network.withdraw(Source::Api, &setting(bridge).name());
        assert_eq!(wanted(&network), [vlan]);
    }

    #[test]
    fn a_link_of_wireguard_shows_no_secret_and_has_its_state_until_it_changes() {
        let key = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
        let link = |port| {
            setting(&format!("link wg0 made wireguard private-key={key} listen-port={port}"))
        };
        let state = |link: &str| WireGuardState {
            link: LinkName::parse(link).unwrap(),
            public_key: osbuild_protocol::PublicKey::new([7; 32]),
            listen_port: 9,
            peers: vec![],
        };
        let mut network = Network::default();
        network.apply(Source::Api, &link(9)).unwrap();
        network.on_set(link(9));
        let observed = network.observe().next().unwrap();
        assert_eq!(observed.current, "wireguard private-key=(hidden) listen-port=9");
        network.on_wireguard(state("wg0")).unwrap();
        assert!(network.on_wireguard(state("wg1")).is_err());
        network.apply(Source::Api, &link(9)).unwrap();
        assert_eq!(network.wireguard().count(), 1);
        network.apply(Source::Api, &link(8)).unwrap();
        assert_eq!(network.wireguard().count(), 0);
    }

    #[test]
    fn only_links_of_wireguard_without_a_key_get_one_of_the_node() {
        let key = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
        let mut network = Network::default();
        for (link, key) in [("wg0", key), ("wg1", "own")] {
            let link = format!("link {link} made wireguard private-key={key}");
            network.apply(Source::Document, &setting(&link)).unwrap();
        }
        assert_eq!(network.wanted().own_keys.len(), 0, "the secret is not there yet");
        network.set_secret(NodeSecret::new([7; osbuild_protocol::KEY]));
        let keys = network.wanted().own_keys;
        assert_eq!(keys.iter().map(|(link, _)| link.as_str()).collect::<Vec<_>>(), ["wg1"]);
    }

    #[test]
    fn the_revision_grows_when_something_else_is_in_effect() {
        let mut network = Network::default();
        assert_eq!(network.revision(), 1);
        network.apply(Source::Api, &setting(API)).unwrap();
        network.apply(Source::Api, &setting(API)).unwrap();
        network.apply(Source::Document, &setting(DOCUMENT)).unwrap();
        network.withdraw(Source::Api, &setting("link eth0 mtu 1400").name());
        assert_eq!(network.revision(), 2);
        network.withdraw(Source::Api, &setting(API).name());
        assert_eq!(network.revision(), 3);
    }

    #[test]
    fn a_report_is_about_the_value_in_effect() {
        let mut network = Network::default();
        let observed = |network: &Network| {
            let observed = network.observe().next().unwrap();
            (observed.current, observed.error)
        };
        network.apply(Source::Api, &setting(API)).unwrap();
        network.on_set(setting(DOCUMENT));
        assert_eq!(observed(&network), (String::new(), String::new()));
        network.on_failed(&setting(API).name(), "no such link".to_owned(), network.revision());
        assert_eq!(observed(&network), (String::new(), "no such link".to_owned()));
        network.on_set(setting(API));
        assert_eq!(observed(&network), ("via 192.0.2.2 on eth0".to_owned(), String::new()));
        network.apply(Source::Api, &setting(DOCUMENT)).unwrap();
        assert_eq!(observed(&network), (String::new(), String::new()));
        let (name, now) = (setting(API).name(), network.revision());
        network.on_failed(&name, "no such link".to_owned(), now - 1);
        assert_eq!(observed(&network).1, "", "the pod does not have this value yet");
        network.apply(Source::Api, &setting("link eth0 mtu 1400")).unwrap();
        network.on_failed(&name, "no route".to_owned(), now);
        assert_eq!(network.observe().map(|one| one.error).collect::<Vec<_>>(), ["no route", ""]);
        network.withdraw(Source::Api, &setting("link eth0 mtu 1400").name());
        network.on_failed(&setting("link eth0 mtu 1400").name(), "gone".to_owned(), now);
        assert_eq!(network.observe().count(), 1);
    }

    #[test]
    fn the_number_of_settings_of_a_kind_is_bounded() {
        let mut network = Network::default();
        let outcomes = (1..=MAX_NETWORK_SETTINGS + 1).map(|number| {
            network.apply(Source::Api, &setting(&format!("link eth{number} mtu 1400"))).is_ok()
        });
        assert_eq!(outcomes.filter(|is_set| *is_set).count(), MAX_NETWORK_SETTINGS);
        network.apply(Source::Document, &setting("link eth1 mtu 1300")).unwrap();
        network.apply(Source::Api, &setting(API)).unwrap();
        network.apply(Source::Api, &setting("link eth1 dhcp off")).unwrap();
        network.apply(Source::Api, &setting("link a made vlan id=5 parent=eth0")).unwrap();
    }

    #[test]
    fn the_first_former_mtu_counts_until_it_is_forgotten() {
        let mut network = Network::default();
        let (link, mtu) = (LinkName::parse("eth0").unwrap(), |bytes| Mtu::new(bytes).ok());
        assert!(network.on_former_mtu(link.clone(), mtu(1500)).is_err());
        network.apply(Source::Api, &setting("link eth0 mtu 1400")).unwrap();
        network.on_former_mtu(link.clone(), mtu(1500)).unwrap();
        network.on_former_mtu(link.clone(), mtu(1400)).unwrap();
        assert_eq!(network.wanted().former_mtus, [(link.clone(), mtu(1500).unwrap())]);
        network.on_former_mtu(link, None).unwrap();
        assert_eq!(network.wanted().former_mtus, []);
    }
}
