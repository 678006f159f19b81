//! The types whose resources are settings of the host. Each is a row of [`TYPES`] and a file here:
//! how its specs become settings, and what its statuses say.

mod addresses;
mod certificates;
mod cluster_joins;
mod control_planes;
mod credential_providers;
mod firewall_rules;
mod hostnames;
mod kernel_modules;
mod kernel_parameters;
mod kubelet_configs;
mod links;
mod motds;
mod mounts;
mod nats;
mod node_labels;
mod node_taints;
mod proxies;
mod registered;
mod registry_credentials;
mod registry_mirrors;
mod resolvers;
mod routes;
mod routing_rules;
mod seccomp_profiles;
pub mod spec;
mod static_pods;
mod swaps;
pub(crate) mod system_images;
mod time_servers;
mod trusted_roots;
mod volumes;

use crate::access::Role;
use osbuild_cosi::SECRETS;
use osbuild_protocol::{ClusterState, Observed, PodState, Setting, SettingName, WireGuardState};
use osbuild_resources::{Kind, Names, PrintColumn, Query, Spec, Store};
use prost_types::Timestamp;
use std::collections::BTreeMap;

/// The namespace of all of them.
pub const NAMESPACE: &str = "system";

/// The suffix in the names of the node's own types.
const SUFFIX: &str = "osbuild";

/// The identifier of a status of which a node has one.
pub(crate) const NODE: &str = "node";

/// A type of settings, and that of its statuses.
pub struct SettingType {
    /// The names of the type.
    pub names: Names<'static>,
    /// Its columns.
    pub columns: &'static [PrintColumn<'static>],
    /// The names of the type of the statuses.
    pub status_names: Names<'static>,
    /// Its columns.
    pub status_columns: &'static [PrintColumn<'static>],
    /// The least role that may write resources of the type. It is an admin's if its values can give
    /// rights on the node, or take the node down.
    pub writer: Role,
    /// Whether a mistake in a resource of the type can keep clients from reaching the node.
    pub may_disconnect: bool,
    /// Reads a spec of the type, and returns its settings, at least one. Fails with the reason if
    /// it has neither form, if the forms differ, or if one of them is malformed.
    pub read: fn(&Spec) -> Result<Vec<Setting>, String>,
    /// Both forms of the spec of these settings, which are of this type.
    pub write: fn(&[Setting]) -> Spec,
    /// The subject of a spec with these settings, as errors name it. Each subject has at most one
    /// resource.
    pub subject: fn(&[Setting]) -> String,
    /// Why the settings of all resources of the type exclude each other, if they do.
    pub conflict: fn(&[Setting]) -> Option<String>,
    /// Whether a setting is of this type.
    pub covers: fn(&SettingName) -> bool,
    /// The specs of the statuses by their identifiers.
    statuses: fn(&Report) -> BTreeMap<String, Spec>,
}

/// All types.
pub const TYPES: [SettingType; 28] = [
    addresses::TYPE,
    cluster_joins::TYPE,
    control_planes::TYPE,
    credential_providers::TYPE,
    firewall_rules::TYPE,
    hostnames::TYPE,
    kernel_modules::TYPE,
    kernel_parameters::TYPE,
    kubelet_configs::TYPE,
    links::TYPE,
    motds::TYPE,
    mounts::TYPE,
    nats::TYPE,
    node_labels::TYPE,
    node_taints::TYPE,
    proxies::TYPE,
    registry_credentials::TYPE,
    registry_mirrors::TYPE,
    resolvers::TYPE,
    routes::TYPE,
    routing_rules::TYPE,
    seccomp_profiles::TYPE,
    static_pods::TYPE,
    swaps::TYPE,
    system_images::TYPE,
    time_servers::TYPE,
    trusted_roots::TYPE,
    volumes::TYPE,
];

/// The settings of a resource.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The identifier of the resource.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The settings that the resource requests.
    pub settings: Vec<Setting>,
    /// Why this release cannot read the resource, such as one of a later release. Then it has no
    /// settings here, and `init` may hold those that it had.
    pub unreadable: Option<String>,
}

/// The input for the statuses of one type.
pub struct Report<'a> {
    /// The resources of the type.
    pub wanted: &'a [Wanted],
    /// The settings as the host reports them, of all types.
    pub observed: &'a [Observed],
    /// Why settings are not set.
    pub errors: &'a BTreeMap<SettingName, String>,
    /// The states of static pods.
    pub pods: &'a [PodState],
    /// The states of links of WireGuard.
    pub wireguard: &'a [WireGuardState],
    /// The node's own knowledge of itself in its cluster; none if it joins none.
    pub cluster: Option<&'a ClusterState>,
}

impl SettingType {
    /// The kind of its resources.
    pub fn kind(&self) -> Kind {
        kind(&self.names)
    }

    /// The kind of its statuses.
    pub fn status_kind(&self) -> Kind {
        kind(&self.status_names)
    }

    /// Returns the settings of the resources in the store. One that is being torn down counts until
    /// its last finalizer is gone.
    pub fn wanted(&self, store: &Store) -> Vec<Wanted> {
        let query = Query::default();
        let kind = self.kind();
        let found = store.list(&kind, &query);
        let in_effect = found.filter(|found| found.content.is_in_effect());
        let wanted = in_effect.map(|found| {
            let (settings, unreadable) = match (self.read)(&found.content.spec) {
                Ok(settings) => (settings, None),
                Err(reason) => {
                    let reason = format!(
                        "this release cannot read the resource, and takes away nothing that it may \
                         request: {reason}"
                    );
                    (Vec::new(), Some(reason))
                }
            };
            let id = found.content.key.id().to_owned();
            Wanted { id, version: found.version.to_string(), settings, unreadable }
        });
        wanted.collect()
    }

    /// The paths of the fields of its specs that are secret.
    pub fn secrets(&self) -> impl Iterator<Item = &'static str> {
        let message = format!("{}Spec", self.names.singular);
        SECRETS.into_iter().filter(move |(of, ..)| *of == message).map(|(_, path, ..)| path)
    }

    /// The specs of the statuses by their identifiers.
    pub fn statuses(&self, report: &Report) -> BTreeMap<String, Spec> {
        (self.statuses)(report)
    }
}

impl Report<'_> {
    /// The state of a setting on the host.
    fn observed(&self, name: &SettingName) -> Option<&Observed> {
        self.observed.iter().find(|observed| observed.name == *name)
    }

    /// The states of the host's settings that `covers` accepts and that no resource requests.
    fn others(&self, covers: fn(&SettingName) -> bool) -> impl Iterator<Item = &Observed> {
        self.observed.iter().filter(move |observed| {
            let mut settings = self.wanted.iter().flat_map(|wanted| &wanted.settings);
            covers(&observed.name) && !settings.any(|setting| setting.name() == observed.name)
        })
    }

    /// The words that the host has of a setting, and their source.
    fn current(&self, name: impl Into<SettingName>) -> (Vec<String>, String) {
        let Some(observed) = self.observed(&name.into()) else { return Default::default() };
        let words = observed.current.split_whitespace().map(str::to_owned).collect();
        let source = observed.source.map_or("", |source| source.name());
        (words, source.to_owned())
    }

    /// Why the settings of a resource are not set: empty if they are.
    fn error(&self, wanted: &Wanted) -> String {
        if let Some(reason) = &wanted.unreadable {
            return reason.clone();
        }
        let errors = wanted.settings.iter().filter_map(|setting| {
            let name = setting.name();
            let observed = || Some(self.observed(&name)?.error.as_str());
            let error = self.errors.get(&name).map(String::as_str).or_else(observed);
            error.filter(|error| !error.is_empty())
        });
        errors.collect::<Vec<_>>().join("; ")
    }

    /// Whether the host has all settings of a resource.
    fn is_set(&self, wanted: &Wanted) -> bool {
        let is_set = |setting: &Setting| {
            let observed = self.observed(&setting.name());
            observed.is_some_and(|observed| {
                observed.is_requested() && observed.current == setting.shown()
            })
        };
        wanted.unreadable.is_none() && wanted.settings.iter().all(is_set)
    }

    /// The error, identifier and version of the resource, for a type with at most one.
    fn only(&self) -> [String; 3] {
        let Some(wanted) = self.wanted.first() else { return Default::default() };
        [self.error(wanted), wanted.id.clone(), wanted.version.clone()]
    }
}

/// The kind of a type of the node.
pub(crate) fn kind(names: &Names) -> Kind {
    let type_name = format!("{}.{}", names.plural, names.suffix);
    Kind::new(NAMESPACE, &type_name).expect("the names of a type are valid")
}

/// The names of a type of the node.
pub(crate) const fn names(plural: &'static str, singular: &'static str) -> Names<'static> {
    Names { plural, singular, suffix: SUFFIX }
}

/// A column of a type.
pub(crate) const fn column(name: &'static str, json_path: &'static str) -> PrintColumn<'static> {
    PrintColumn { name, json_path }
}

/// Columns of statuses.
const SOURCE: PrintColumn = column("Source", "{.source}");
const ERROR: PrintColumn = column("Error", "{.error}");
const SET: PrintColumn = column("Set", "{.set}");
const SET_BY: PrintColumn = column("Set by", "{.setBy}");

/// A time in seconds since 1970, as RFC 3339 has it.
pub(crate) fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamp { seconds, nanos: 0 }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIREGUARD: &str = "link wg0 made wireguard \
         private-key=+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28= \
         listen-port=9 fwmark=0x1 peers=I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=,\
         preshared-key=fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=,endpoint=192.0.2.1:9,\
         keepalive=25,allowed=10.7.0.0/24;lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=";

    const OTHERS: [&str; 11] = [
        "system-image a.example/b:1 kept",
        "control-plane apiVersion:%20kubeadm.k8s.io/v1%0akind:%20ClusterConfiguration%0a",
        "swap size=512Mi",
        "swap size=50% memory-limit=256Mi pods",
        "credential-provider ecr cache=12h api=v1 images=*.a,b:5000/c arg=get%20it env=A=b",
        "nat lan masquerade link=wwan* sources=10.8.0.0/24,fd00:8::/64",
        "nat fixed source link=eth0 sources=10.8.0.5/32 to=192.0.2.7",
        "nat web destination link=eth0 protocol=tcp address=192.0.2.7 port=80 to=10.8.0.5 \
         to-port=8080",
        "firewall-rule rest drop",
        "firewall-rule api accept protocol=tcp ports=22,50000-50001 sources=10.0.0.0/8,::/0",
        "firewall-rule pods drop priority=7 protocol=4 links=cali*,cni0",
    ];

    fn setting(line: &str) -> Setting {
        Setting::parse(line).unwrap()
    }

    #[test]
    fn every_setting_belongs_to_one_type_which_writes_and_reads_it() {
        for line in [
            "host-name edge-7",
            "name-servers 10.0.2.3 fec0::3",
            "search-domains example.org local",
            "time-servers time.example:123 10.0.2.4",
            "motd %20Rack%207%0a%0aAsk%20%22us%22:%20%23ops%0a",
            "kernel-module dm_crypt built-in",
            "kernel-parameter net.ipv4.tcp_rmem 4096 8192 16384",
            "address eth0 192.0.2.7 24",
            "route ::/0 512 via 2001:db8::1 on eth0",
            "route 198.51.100.0/24 7 on eth0",
            "route 198.51.100.0/24 7 table 100 on eth0",
            "routing-rule ipv4 2000 table=254",
            "routing-rule ipv6 2000 table=7 from=2001:db8::/32 to=2001:db8:1::/48 iif=lo oif=eth0 \
             fwmark=0x1/0xff",
            "link eth0 mtu 1400",
            "link eth0 dhcp off",
            "link eth0.5 made vlan id=5 parent=eth0",
            "link eth0.6 made vlan id=6 parent=eth0 protocol=802.1ad",
            "link br0 made bridge ports=eth1,eth2 stp=on vlan-filtering=on",
            "link br0 made bridge",
            WIREGUARD,
            "link bond0 made bond mode=802.3ad ports=eth1 miimon=50 lacp-rate=fast \
             xmit-hash-policy=layer3+4",
            "link bond0 made bond mode=active-backup ports=eth1,eth2 primary=eth2",
            "kubelet-config maxPods 50",
            "kubelet-config registryPullQPS 0",
            "kubelet-config serializeImagePulls false",
            "kubelet-config imageMaximumGCAge 720h",
            "kubelet-config evictionHard.memory.available 10%",
            "node-label example.org/rack 7",
            "node-label edge -",
            "node-taint dedicated:NoSchedule database",
            "node-taint edge:NoExecute -",
            "mount /run/mnt/a tmpfs scratch ro,size=1m",
            "mount /run/mnt/a bind /srv",
            "registry-credential docker.io user=a password=YQ==",
            "registry-credential localhost:5000 token=a plain-http",
            "registry-mirror docker.io mirror=https://a:5000 pull=https://b",
            "registry-mirror localhost:5000 server=https://a",
            "proxy http=http://a:1 https=https://b:2 no-proxy=.example,10.0.0.0/8",
            "proxy https=http://a:1",
            "static-pod web container=a image=b",
            "static-pod web namespace=media host-network host-pid restart=Never grace=0 \
             volume=a:memory:1Mi volume=b:disk:64Mi volume=c:host:/srv init-container=i image=b \
             arg=a%20b container=a image=docker.io/b:1 pull=Never command=/bin/a%25 arg=-v%2c \
             env=A=1 env=B= request-cpu=100m limit-memory=64Mi port=80/TCP port=53/UDP \
             mount=a:rw:/a mount=c:ro:/c user=0 group=7 writable-root privileged \
             capability=NET_ADMIN startup=0:0:0:9:tcp:80 liveness=1:2:3:4:http:80:/a%20b \
             readiness=0:0:0:0:exec:/bin/a,b%2c",
            "volume logs-2 wwid=t10.ATA%20%20QEMU%25",
        ]
        .into_iter()
        .chain(OTHERS)
        {
            let settings = vec![setting(line)];
            let covers: Vec<_> =
                TYPES.iter().filter(|one| (one.covers)(&settings[0].name())).collect();
            let [one] = covers.as_slice() else { panic!("{line}: {} types", covers.len()) };
            let both = (one.write)(&settings);
            assert_eq!((one.read)(&both), Ok(settings.clone()));
            let message = Spec { yaml: String::new(), ..both.clone() };
            assert_eq!((one.read)(&message), Ok(settings.clone()));
            let yaml = Spec { proto: Vec::new(), ..both };
            let shown = &yaml.yaml;
            assert!(!shown.contains("password: a") && !shown.contains("+C5uPI"), "{shown}");
            assert_eq!((one.read)(&yaml), Ok(settings), "{}", yaml.yaml);
        }
    }

    #[test]
    fn every_secret_is_of_a_type() {
        let secrets = TYPES.iter().flat_map(SettingType::secrets);
        assert!(secrets.eq(SECRETS.into_iter().map(|(_, path, ..)| path)));
    }

    #[test]
    fn a_status_has_what_the_host_has_and_why_the_rest_is_missing() {
        let name = setting("name-servers 10.0.2.3").name();
        let observed = [Observed {
            name: name.clone(),
            wanted: None,
            source: Some(osbuild_ranks::Source::Dhcp),
            current: "10.0.2.3 fec0::3".to_owned(),
            error: String::new(),
        }];
        let errors = BTreeMap::from([(name, "the disk is full".to_owned())]);
        let settings = vec![setting("name-servers 10.0.2.9")];
        let (id, version) = ("mine".to_owned(), "3".to_owned());
        let wanted = [Wanted { id, version, settings, unreadable: None }];
        let report = Report {
            wanted: &wanted,
            observed: &observed,
            errors: &errors,
            pods: &[],
            wireguard: &[],
            cluster: None,
        };
        let statuses = resolvers::TYPE.statuses(&report);
        assert_eq!(
            statuses["node"].yaml.lines().collect::<Vec<_>>(),
            [
                "nameserver:",
                "- \"10.0.2.3\"",
                "- fec0::3",
                "nameserverSource: dhcp",
                "search: []",
                "searchSource: \"\"",
                "error: the disk is full",
                "resource: mine",
                "version: \"3\"",
            ]
        );
        let none = Report {
            wanted: &[],
            observed: &[],
            errors: &BTreeMap::new(),
            pods: &[],
            wireguard: &[],
            cluster: None,
        };
        assert_eq!(resolvers::TYPE.statuses(&none).len(), 1);
        assert!(kernel_parameters::TYPE.statuses(&none).is_empty());
    }

    #[test]
    fn a_status_of_each_type_says_why_its_resource_cannot_be_read() {
        let reason = "unknown field `future`";
        let wanted = [Wanted {
            id: "node".to_owned(),
            version: "1".to_owned(),
            settings: vec![],
            unreadable: Some(reason.to_owned()),
        }];
        let report = Report {
            wanted: &wanted,
            observed: &[],
            errors: &BTreeMap::new(),
            pods: &[],
            wireguard: &[],
            cluster: None,
        };
        for one in &TYPES {
            let statuses = one.statuses(&report);
            let Some(status) = statuses.get("node") else { panic!("{}", one.names.plural) };
            assert!(status.yaml.contains(reason), "{}", status.yaml);
            assert!(!status.yaml.contains(": true"), "{}", status.yaml);
        }
    }

    #[test]
    fn a_status_of_the_network_has_what_became_of_the_setting() {
        let route = setting("route 0.0.0.0/0 512 via 192.0.2.1 on eth0");
        let wanted = Wanted {
            id: "default".to_owned(),
            version: "1".to_owned(),
            settings: vec![route.clone()],
            unreadable: None,
        };
        let status = |current: &str, error: &str| {
            let observed = [Observed {
                name: route.name(),
                wanted: Some(route.clone()),
                source: Some(osbuild_ranks::Source::Api),
                current: current.to_owned(),
                error: error.to_owned(),
            }];
            let (wanted, errors) = (std::slice::from_ref(&wanted), &BTreeMap::new());
            let report = Report {
                wanted,
                observed: &observed,
                errors,
                pods: &[],
                wireguard: &[],
                cluster: None,
            };
            routes::TYPE.statuses(&report)["default"].yaml.clone()
        };
        let set = status("via 192.0.2.1 on eth0", "");
        assert!(set.ends_with("set: true\nversion: \"1\"\nsetBy: api\n"), "{set}");
        let refused = status("", "Network is unreachable");
        let expected = "set: false\nerror: Network is unreachable\nversion: \"1\"\nsetBy: api\n";
        assert!(refused.ends_with(expected), "{refused}");
    }

    #[test]
    fn settings_without_a_resource_have_a_status_with_their_source() {
        let of = |name: &str, current: &str, source| {
            let setting = setting(&format!("{name} {current}"));
            let current = current.to_owned();
            Observed { name: setting.name(), wanted: None, source, current, error: String::new() }
        };
        use osbuild_ranks::Source::{Document, Image};
        let observed = [
            of("kernel-parameter vm.swappiness", "10", Some(Image)),
            of("address eth0 192.0.2.7", "24", Some(Document)),
            of("route 198.51.100.0/24 512", "via 192.0.2.1 on eth0", Some(Image)),
            of("link eth0 mtu", "1400", Some(Image)),
            of("link eth0 state", "up", Some(Document)),
        ];
        let errors = BTreeMap::new();
        let report = Report {
            wanted: &[],
            observed: &observed,
            errors: &errors,
            pods: &[],
            wireguard: &[],
            cluster: None,
        };
        for (one, id, parts) in [
            (kernel_parameters::TYPE, "vm.swappiness", ["current: \"10\"", "setBy: image"]),
            (addresses::TYPE, "eth0/192.0.2.7", ["address: 192.0.2.7/24", "setBy: document"]),
            (routes::TYPE, "198.51.100.0/24-512-254", ["gateway: \"192.0.2.1\"", "setBy: image"]),
            (links::TYPE, "eth0", ["mtu: 1400", "setBy: document,image"]),
        ] {
            let statuses = one.statuses(&report);
            let yaml = &statuses.get(id).unwrap_or_else(|| panic!("{statuses:?}")).yaml;
            for part in parts {
                assert!(yaml.contains(part), "{yaml}");
            }
        }
    }
}
