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

/// Adds what `init` holds to the store: a resource for all that belongs together.
pub fn adopt(store: &SharedStore, observed: &[Observed]) {
    for one in &TYPES {
        let held = observed.iter().filter_map(|observed| observed.wanted.clone());
        let mut resources: BTreeMap<String, Vec<Setting>> = BTreeMap::new();
        for setting in held.filter(|setting| (one.covers)(&setting.name())) {
            let id = match setting.name() {
                SettingName::CredentialProvider(name) => name.to_string(),
                SettingName::KernelModule(name) => name.to_string(),
                SettingName::KernelParameter(key) => key.to_string(),
                SettingName::Mount(target) => target.to_string(),
                SettingName::Network(name) => id_of(&name),
                SettingName::NodeLabel(key) => key.to_string(),
                SettingName::NodeTaint(name) => name.to_string(),
                SettingName::RegistryCredential(registry)
                | SettingName::RegistryMirror(registry) => registry.to_string(),
                SettingName::SeccompProfile(name) => name.to_string(),
                SettingName::StaticPod(name) => name.to_string(),
                SettingName::SystemImage(name) => system_images::id(&name),
                SettingName::TrustedRoot(name) => name.to_string(),
                SettingName::Volume(name) => name.to_string(),
                SettingName::ClusterJoin
                | SettingName::ControlPlane
                | SettingName::Kubelet(_)
                | SettingName::Proxy
                | SettingName::Single(_)
                | SettingName::Swap => "node".to_owned(),
            };
            resources.entry(id).or_default().push(setting);
        }
        resources.iter().for_each(|(id, settings)| create(store, one, id, settings));
    }
}

/// The identifier of a setting of the network. All settings of a link belong together.
fn id_of(name: &NetworkName) -> String {
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
/// its resources are those of the store again.
///
/// # Errors
/// A resource cannot be replaced.
pub fn go_back(store: &SharedStore, observed: &[Observed]) -> Result<(), Error> {
    let held = observed.iter().filter_map(|observed| observed.wanted.as_ref());
    let held: BTreeSet<String> = held.map(Setting::line).collect();
    if !store.go_back(|resources| lines(resources) == held)? {
        adopt(store, observed);
    }
    Ok(())
}

/// The settings of resources, as `init` has them.
fn lines(resources: &[Arc<Resource>]) -> BTreeSet<String> {
    let settings = resources.iter().filter_map(|resource| {
        let one = ClientType::of(resource.content.key.kind())?.of_host()?;
        (one.read)(&resource.content.spec).ok()
    });
    settings.flatten().map(|setting| setting.line()).collect()
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

    fn observed(lines: &[&str]) -> Vec<Observed> {
        let observed = lines.iter().map(|line| {
            let wanted = Setting::parse(line).unwrap();
            let (name, current) = (wanted.name(), wanted.value());
            Observed { name, wanted: Some(wanted), source: None, current, error: String::new() }
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
