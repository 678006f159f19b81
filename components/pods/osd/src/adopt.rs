//! Takes over what `init` holds: when the store has nothing, and when `init` has gone back to
//! earlier settings.

use crate::client_type::ClientType;
use crate::settings::{SettingType, TYPES, system_images};
use crate::shared::SharedStore;
use osbuild_protocol::{NetworkName, Observed, Setting, SettingName};
use osbuild_resources::{Content, Error, Key, Owner, Resource, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

/// Adds what `init` holds to the store: a resource for all that belongs together. Settings that a
/// resource requests already get no other one, nor do those that one may request that cannot be
/// read.
pub fn adopt(store: &SharedStore, observed: &[Observed]) {
    for one in &TYPES {
        let there = store.read(|store| one.wanted(store));
        if there.iter().any(|wanted| wanted.unreadable.is_some()) {
            continue;
        }
        let is_there = |setting: &Setting| {
            let mut settings = there.iter().flat_map(|wanted| &wanted.settings);
            settings.any(|found| found.name() == setting.name())
        };
        let held = observed.iter().filter_map(|observed| observed.wanted.clone());
        let mut resources: BTreeMap<String, Vec<Setting>> = BTreeMap::new();
        for setting in held.filter(|setting| (one.covers)(&setting.name()) && !is_there(setting)) {
            resources.entry(id_of(&setting.name())).or_default().push(setting);
        }
        for (id, settings) in &resources {
            let others = (2..).map(|number| format!("{id}-{number}"));
            let mut ids = std::iter::once(id.clone()).chain(others);
            let id = ids.find(|id| there.iter().all(|wanted| wanted.id != *id));
            create(store, one, &id.unwrap_or_default(), settings);
        }
    }
}

/// The identifier of the resource for a setting. Settings of a type with the same one belong
/// together.
fn id_of(name: &SettingName) -> String {
    match name {
        SettingName::CredentialProvider(name) => name.to_string(),
        SettingName::KernelModule(name) => name.to_string(),
        SettingName::KernelParameter(key) => key.to_string(),
        SettingName::Mount(target) => target.to_string(),
        SettingName::Network(name) => id_in_network(name),
        SettingName::NodeLabel(key) => key.to_string(),
        SettingName::NodeTaint(name) => name.to_string(),
        SettingName::RegistryCredential(registry) | SettingName::RegistryMirror(registry) => {
            registry.to_string()
        }
        SettingName::SeccompProfile(name) => name.to_string(),
        SettingName::StaticPod(name) => name.to_string(),
        SettingName::SystemImage(name) => system_images::id(name),
        SettingName::TrustedRoot(name) => name.to_string(),
        SettingName::Volume(name) => name.to_string(),
        SettingName::ClusterJoin
        | SettingName::ControlPlane
        | SettingName::Kubelet(_)
        | SettingName::Proxy
        | SettingName::Single(_)
        | SettingName::Swap => "node".to_owned(),
    }
}

/// The identifier of a setting of the network. All settings of a link belong together.
fn id_in_network(name: &NetworkName) -> String {
    match name {
        NetworkName::Address(link, address) => format!("{link}-{address}"),
        NetworkName::Route(destination, metric, table) => {
            let route =
                format!("{}-{}-{metric}", destination.address(), destination.prefix_length());
            if table.is_main() { route } else { format!("{route}-{table}") }
        }
        NetworkName::RoutingRule(family, priority) => format!("{family}-{priority}"),
        NetworkName::Mtu(link)
        | NetworkName::Dhcp(link)
        | NetworkName::State(link)
        | NetworkName::Made(link) => link.to_string(),
        NetworkName::FirewallRule(name) | NetworkName::Nat(name) => name.to_string(),
    }
}

/// Has the store follow `init`, which has gone back to earlier settings. If a generation has these,
/// its resources are those of the store again. Otherwise resources stay that agree with `init`, and
/// there are new ones for the rest. Settings that `init` has refused do not count.
///
/// # Errors
/// A resource cannot be replaced.
pub fn go_back(store: &SharedStore, observed: &[Observed]) -> Result<(), Error> {
    let held: Vec<&Setting> = observed.iter().filter_map(|one| one.wanted.as_ref()).collect();
    let mut refused = store.refused();
    let kept = observed.iter().filter(|one| one.wanted.is_some() && one.source.is_none());
    refused.extend(kept.map(|one| one.name.clone()));
    let counts = |setting: &&Setting| !refused.contains(&setting.name());
    let expected: BTreeSet<String> =
        held.iter().copied().filter(counts).map(Setting::line).collect();
    let has_these = |resources: &[Arc<Resource>]| {
        let settings = resources.iter().filter_map(|resource| settings_of(resource)).flatten();
        let settings: Vec<Setting> = settings.collect();
        settings.iter().filter(counts).map(Setting::line).collect::<BTreeSet<_>>() == expected
    };
    if !store.go_back(has_these, |resource| agrees(resource, &held, &refused))? {
        adopt(store, observed);
    }
    Ok(())
}

/// The settings of a resource, if it has any that can be read.
fn settings_of(resource: &Resource) -> Option<Vec<Setting>> {
    let one = ClientType::of(resource.content.key.kind())?.of_host()?;
    (one.read)(&resource.content.spec).ok()
}

/// Whether `init` holds what a resource requests, other than what it has refused, and nothing more
/// that belongs to the resource. Nobody knows what one requests that cannot be read: it stays.
fn agrees(resource: &Resource, held: &[&Setting], refused: &BTreeSet<SettingName>) -> bool {
    let Some(settings) = settings_of(resource) else { return true };
    let kind = ClientType::of(resource.content.key.kind()).and_then(ClientType::of_host);
    let ids: BTreeSet<String> = settings.iter().map(|one| id_of(&one.name())).collect();
    let belongs = |setting: &Setting| {
        let name = setting.name();
        kind.is_some_and(|one| (one.covers)(&name)) && ids.contains(&id_of(&name))
    };
    let is_held = |setting: &Setting| held.contains(&setting) || refused.contains(&setting.name());
    settings.iter().all(is_held)
        && held.iter().all(|setting| !belongs(setting) || settings.contains(setting))
}

/// Creates a resource, unless a client has created it in the meantime.
fn create(store: &SharedStore, one: &SettingType, id: &str, settings: &[Setting]) {
    let Ok(key) = Key::new(one.kind(), id) else { return };
    let content = Content::new(key, (one.write)(settings));
    let created = |store: &mut Store| store.create(content, Owner::default(), SystemTime::now());
    let _ = store.write(&one.kind(), created);
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_ranks::Source;
    use osbuild_resources::Spec;

    fn observed(lines: &[&str]) -> Vec<Observed> {
        let observed = lines.iter().map(|line| {
            let wanted = Setting::parse(line).unwrap();
            let (name, current) = (wanted.name(), wanted.value());
            let (source, error) = (Some(Source::Api), String::new());
            Observed { name, wanted: Some(wanted), source, current, error }
        });
        observed.collect()
    }

    /// Creates or replaces a resource, and records that.
    fn set(store: &SharedStore, id: &str, line: &str) {
        let setting = Setting::parse(line).unwrap();
        let one = TYPES.iter().find(|one| (one.covers)(&setting.name())).unwrap();
        let key = Key::new(one.kind(), id).unwrap();
        let before = store.read(|store| store.get(&key)).ok();
        if before.is_some() {
            store.write(&one.kind(), |store| store.destroy(&key, &Owner::default())).unwrap();
        }
        create(store, one, id, &[setting]);
        store.record_generation("a person");
    }

    /// The identifiers and settings in the store.
    fn settings(store: &SharedStore) -> Vec<(String, String)> {
        let wanted = store.read(|store| TYPES.each_ref().map(|one| one.wanted(store)));
        let lines = wanted.iter().flatten().flat_map(|wanted| {
            wanted.settings.iter().map(|setting| (wanted.id.clone(), setting.to_string()))
        });
        lines.collect()
    }

    fn pair(id: &str, line: &str) -> (String, String) {
        (id.to_owned(), line.to_owned())
    }

    #[test]
    fn what_init_holds_becomes_a_resource_for_all_that_belongs_together() {
        let store = SharedStore::new().unwrap();
        adopt(
            &store,
            &observed(&[
                "host-name edge-7",
                "name-servers 10.0.2.3",
                "search-domains local",
                "kernel-parameter vm.swappiness 10",
                "address eth0 2001:db8::7 64",
                "link eth0 dhcp off",
                "link eth0 mtu 1400",
                "link eth0.5 made vlan id=5 parent=eth0",
                "link eth0.5 mtu 1400",
                "route 0.0.0.0/0 512 via 192.0.2.1 on eth0",
                "route 0.0.0.0/0 512 table 100 via 192.0.2.1 on eth0",
                "routing-rule ipv4 2000 table=100",
                "firewall-rule rest drop",
                "firewall-rule api accept protocol=tcp ports=50000",
                "mount /run/mnt/a tmpfs scratch",
                "registry-mirror localhost:5000 server=https://a",
            ]),
        );
        let wanted = store.read(|store| TYPES.each_ref().map(|one| one.wanted(store)));
        let wanted: Vec<_> =
            wanted.iter().flatten().map(|one| (one.id.as_str(), one.settings.len())).collect();
        let expected = [
            ("eth0-2001:db8::7", 1),
            ("api", 1),
            ("rest", 1),
            ("node", 1),
            ("vm.swappiness", 1),
            ("eth0", 2),
            ("eth0.5", 2),
            ("/run/mnt/a", 1),
            ("localhost:5000", 1),
            ("node", 2),
            ("0.0.0.0-0-512", 1),
            ("0.0.0.0-0-512-100", 1),
            ("ipv4-2000", 1),
        ];
        assert_eq!(wanted, expected);
    }

    #[test]
    fn the_store_goes_back_to_the_generation_that_init_holds() {
        let store = SharedStore::new().unwrap();
        store.record_generation("osd");
        let (good, bad) = ("name-servers 10.0.2.3", "name-servers 10.0.2.66");
        set(&store, "dns", good);
        set(&store, "dns", bad);
        set(&store, "swap", "kernel-parameter vm.swappiness 10");
        go_back(&store, &observed(&[good])).unwrap();
        assert_eq!(settings(&store), [pair("dns", good)]);
        go_back(&store, &[]).unwrap();
        assert_eq!(settings(&store), []);
    }

    #[test]
    fn settings_of_no_generation_get_resources_of_their_own() {
        let store = SharedStore::new().unwrap();
        set(&store, "dns", "name-servers 10.0.2.66");
        go_back(&store, &observed(&["host-name edge-7"])).unwrap();
        assert_eq!(settings(&store), [pair("node", "host-name edge-7")]);
    }

    const MTU: &str = "link eth0 mtu 1400";

    #[test]
    fn without_a_generation_the_resources_stay_that_agree_with_init() {
        let store = SharedStore::new().unwrap();
        let (swappiness, panic) =
            ("kernel-parameter vm.swappiness 10", "kernel-parameter kernel.panic 5");
        for (id, line) in [("mine", swappiness), ("bad", panic), ("uplink", MTU)] {
            set(&store, id, line);
        }
        let (dhcp, name) = ("link eth0 dhcp off", "host-name edge-7");
        set(&store, "vm.max_map_count", "kernel-parameter fs.nr_open 65536");
        let others = ["kernel-parameter fs.nr_open 65536", "kernel-parameter vm.max_map_count 1"];
        let all = [swappiness, MTU, dhcp, name, others[0], others[1]];
        go_back(&store, &observed(&all)).unwrap();
        let expected = [
            pair("node", name),
            pair("mine", swappiness),
            pair("vm.max_map_count", others[0]),
            pair("vm.max_map_count-2", others[1]),
            pair("eth0", MTU),
            pair("eth0", dhcp),
        ];
        assert_eq!(settings(&store), expected, "a link has one resource");
    }

    #[test]
    fn a_resource_that_cannot_be_read_stays_and_nothing_of_its_type_is_adopted() {
        let store = SharedStore::new().unwrap();
        let kind = ClientType::named("Link").unwrap().kind();
        let spec = Spec { yaml: "{link: eth0, future: x}".to_owned(), ..Spec::default() };
        let content = Content::new(Key::new(kind.clone(), "uplink").unwrap(), spec);
        let created =
            |store: &mut Store| store.create(content, Owner::default(), SystemTime::now());
        store.write(&kind, created).unwrap();
        go_back(&store, &observed(&[MTU, "host-name edge-7"])).unwrap();
        assert_eq!(settings(&store), [pair("node", "host-name edge-7")]);
        let ids: Vec<String> = store.kept().iter().map(|one| one.content.key.id().into()).collect();
        assert_eq!(ids, ["node", "uplink"]);
    }

    #[test]
    fn a_line_that_init_refuses_says_nothing_about_a_generation() {
        let store = SharedStore::new().unwrap();
        let (good, bad) = ("name-servers 10.0.2.3", "name-servers 10.0.2.66");
        let refused = "kernel-parameter kernel.panic 5";
        set(&store, "refused", refused);
        set(&store, "dns", good);
        set(&store, "dns", bad);
        store.set_refused([Setting::parse(refused).unwrap().name()].into());
        go_back(&store, &observed(&[good])).unwrap();
        let expected = [pair("refused", refused), pair("dns", good)];
        assert_eq!(settings(&store), expected);
    }

    #[test]
    fn what_the_store_has_already_keeps_its_version() {
        let store = SharedStore::new().unwrap();
        let line = "name-servers 10.0.2.3";
        set(&store, "dns", line);
        let versions = || store.read(|store| TYPES.each_ref().map(|one| one.wanted(store)));
        let before: Vec<_> = versions().iter().flatten().map(|one| one.version.clone()).collect();
        go_back(&store, &observed(&[line])).unwrap();
        let after: Vec<_> = versions().iter().flatten().map(|one| one.version.clone()).collect();
        assert_eq!(before, after);
    }
}
