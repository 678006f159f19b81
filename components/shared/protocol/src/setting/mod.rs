//! The settings of the host that the socket `host` changes. Each is one line of text: on the wire,
//! and in the file on DATA in which `init` keeps them.

mod authorities;
mod domain;
mod escape;
mod host;
mod kernel_module;
mod kernel_parameter;
mod kubelet;
mod list;
mod motd;
mod mount;
mod network;
mod node;
mod observed;
mod pod;
mod proxy;
mod registry;
mod secret;
mod start;
mod time_server;
mod tried;
mod trusted_root;
mod volume;

pub use authorities::Authorities;
pub use domain::Domain;
pub use kernel_module::{KernelModule, MAX_MODULES, ModuleName};
pub use kernel_parameter::{KernelParameter, MAX_PARAMETERS, ParameterKey, ParameterValue, words};
pub use kubelet::{KubeletField, KubeletKey, KubeletValue};
pub use list::{Entry, List};
pub use motd::{MAX_MOTD_COLUMNS, MAX_MOTD_LINES, Motd};
pub use mount::{MAX_MOUNTS, Mount, MountOptions, MountPath, MountSource, TmpfsSize};
pub use network::{
    AllowedNetwork, Bond, BondMode, BondOptions, Bridge, FirewallRule, HashPolicy, IpFamily, KEY,
    LacpRate, LinkName, LinkPattern, MAX_NETWORK_SETTINGS, MadeLink, Metric, Mtu, NetworkKind,
    NetworkName, NetworkSetting, NetworkSettings, PacketMark, PeerOptions, PeerState, PortRange,
    Ports, PublicKey, RouteTable, RoutingPriority, RoutingRule, RoutingRuleOptions, RuleAction,
    RuleLink, RuleName, RuleOptions, RuleOrder, RulePriority, RuleProtocol, SecretKey,
    StaticAddress, StaticRoute, Subnet, Vlan, VlanProtocol, WireGuard, WireGuardOptions,
    WireGuardPeer, WireGuardState, firewall_conflict, link_conflicts, rule_that_closes,
};
pub use node::{
    LabelKey, LabelValue, MAX_LABELS, MAX_TAINTS, NodeLabel, NodeTaint, TaintEffect, TaintName,
    is_subdomain,
};
pub use observed::{HostSettings, Observed};
pub(crate) use observed::{decode, encode};
pub use pod::{
    ByteSize, Capability, ContainerPort, ContainerSecurity, CpuTime, MAX_STATIC_PODS, PodContainer,
    PodName, PodNamespace, PodRight, PodRights, PodSpec, PodState, PodText, PodVolume,
    PortProtocol, Probe, ProbeAction, ProbeTiming, PullPolicy, Resources, RestartPolicy, StaticPod,
    VariableName, VolumeMount, VolumeSource,
};
pub use proxy::{MAX_EXCLUSIONS, NEVER_PROXIED, Proxy, ProxyExclusion, ProxyUrl};
pub use registry::{
    MAX_CREDENTIALS, MAX_REGISTRIES, MirrorHost, RegistryCredential, RegistryLogin, RegistryMirror,
    RegistryName, RegistryUrl,
};
pub use secret::{REDACTED, Secret};
pub use start::StartSettings;
pub use time_server::TimeServer;
pub use tried::{TryState, TryTime};
pub use trusted_root::{MAX_ROOTS, RootName, TrustedRoot};
pub use volume::{DiskId, DiskText, MAX_VOLUMES, Volume, VolumeName, VolumePhase, VolumeState};

use std::fmt;
use std::net::IpAddr;

use crate::{HostName, Refusal};

/// The addresses of name servers: as many as a resolver reads (resolv.conf(5), `MAXNS`).
pub type NameServers = List<IpAddr, 3>;
/// The domains of a search list: as many as every resolver reads (resolv.conf(5)).
pub type SearchDomains = List<Domain, 6>;
/// Time servers: more than any client asks.
pub type TimeServers = List<TimeServer, 8>;

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The host name.
    HostName(HostName),
    /// The name servers.
    NameServers(NameServers),
    /// The search list for names.
    SearchDomains(SearchDomains),
    /// The time servers.
    TimeServers(TimeServers),
    /// The message on the consoles.
    Motd(Motd),
    /// A module that the kernel shall have built in.
    KernelModule(KernelModule),
    /// A parameter of the kernel.
    KernelParameter(KernelParameter),
    /// A field of the kubelet's configuration.
    Kubelet(KubeletField),
    /// A mount.
    Mount(Mount),
    /// An address, a route, a setting of a link, a firewall rule, or a routing rule.
    Network(NetworkSetting),
    /// A label of the node in its cluster.
    NodeLabel(NodeLabel),
    /// A taint of the node in its cluster.
    NodeTaint(NodeTaint),
    /// The proxy of the node's own programs.
    Proxy(Proxy),
    /// The credentials of a host that serves images.
    RegistryCredential(RegistryCredential),
    /// The mirrors of a registry.
    RegistryMirror(RegistryMirror),
    /// A static pod.
    StaticPod(StaticPod),
    /// Authorities that the node's own programs trust.
    TrustedRoot(TrustedRoot),
    /// A disk with a file system for pods.
    Volume(Volume),
}

/// A setting without its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingName {
    /// One of which a node has one.
    Single(Single),
    /// A module that the kernel shall have built in, by its name.
    KernelModule(ModuleName),
    /// A parameter of the kernel.
    KernelParameter(ParameterKey),
    /// A field of the kubelet's configuration.
    Kubelet(KubeletKey),
    /// A mount, by its target.
    Mount(MountPath),
    /// An address, a route, a setting of a link, a firewall rule, or a routing rule.
    Network(NetworkName),
    /// A label of the node in its cluster, by its key.
    NodeLabel(LabelKey),
    /// A taint of the node in its cluster, by its key and effect.
    NodeTaint(TaintName),
    /// The proxy of the node's own programs.
    Proxy,
    /// The credentials of a host that serves images.
    RegistryCredential(RegistryName),
    /// The mirrors of a registry.
    RegistryMirror(RegistryName),
    /// A static pod, by its name.
    StaticPod(PodName),
    /// Authorities that the node's own programs trust, by their name.
    TrustedRoot(RootName),
    /// A disk with a file system for pods, by the name of the volume.
    Volume(VolumeName),
}

/// A setting of which a node has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Single {
    /// The host name.
    HostName,
    /// The name servers.
    NameServers,
    /// The search list for names.
    SearchDomains,
    /// The time servers.
    TimeServers,
    /// The message on the consoles.
    Motd,
}

const KERNEL_MODULE: &str = "kernel-module";
const KERNEL_PARAMETER: &str = "kernel-parameter";
const KUBELET: &str = "kubelet-config";
const MOUNT: &str = "mount";
const NODE_LABEL: &str = "node-label";
const NODE_TAINT: &str = "node-taint";
const PROXY: &str = "proxy";
const REGISTRY_CREDENTIAL: &str = "registry-credential";
const REGISTRY_MIRROR: &str = "registry-mirror";
const STATIC_POD: &str = "static-pod";
const TRUSTED_ROOT: &str = "trusted-root";
const VOLUME: &str = "volume";

impl Single {
    /// All of them.
    pub const ALL: [Single; 5] =
        [Self::HostName, Self::NameServers, Self::SearchDomains, Self::TimeServers, Self::Motd];

    /// The word for it in lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::HostName => "host-name",
            Self::NameServers => "name-servers",
            Self::SearchDomains => "search-domains",
            Self::TimeServers => "time-servers",
            Self::Motd => "motd",
        }
    }
}

impl Setting {
    /// Reads the line that [`line`](Self::line) writes.
    ///
    /// # Errors
    /// There is no such setting, or its value is malformed.
    pub fn parse(line: &str) -> Result<Self, Refusal> {
        let (name, value) = SettingName::split(line)?;
        let list = || value.split(' ').filter(|word| !word.is_empty());
        Ok(match name {
            SettingName::Single(Single::HostName) => Self::HostName(HostName::parse(value)?),
            SettingName::Single(Single::NameServers) => Self::NameServers(List::parse(list())?),
            SettingName::Single(Single::SearchDomains) => Self::SearchDomains(List::parse(list())?),
            SettingName::Single(Single::TimeServers) => Self::TimeServers(List::parse(list())?),
            SettingName::Single(Single::Motd) => Self::Motd(Motd::parse_word(value)?),
            SettingName::KernelModule(name) => {
                Self::KernelModule(KernelModule::parse_word(name, value)?)
            }
            SettingName::KernelParameter(key) => {
                let value = ParameterValue::parse(value)?;
                Self::KernelParameter(KernelParameter { key, value })
            }
            SettingName::Kubelet(key) => Self::Kubelet(KubeletField::parse(key.as_str(), value)?),
            SettingName::Mount(target) => Self::Mount(Mount::parse_words(&target, value)?),
            SettingName::Network(name) => Self::Network(NetworkSetting::parse(name, value)?),
            SettingName::NodeLabel(key) => {
                Self::NodeLabel(NodeLabel { key, value: LabelValue::parse_word(value)? })
            }
            SettingName::NodeTaint(name) => {
                Self::NodeTaint(NodeTaint { name, value: LabelValue::parse_word(value)? })
            }
            SettingName::Proxy => Self::Proxy(Proxy::parse_words(value)?),
            SettingName::RegistryCredential(registry) => {
                Self::RegistryCredential(RegistryCredential::parse_words(registry, value)?)
            }
            SettingName::RegistryMirror(registry) => {
                Self::RegistryMirror(RegistryMirror::parse_words(registry, value)?)
            }
            SettingName::StaticPod(name) => Self::StaticPod(StaticPod::parse_words(name, value)?),
            SettingName::TrustedRoot(name) => {
                Self::TrustedRoot(TrustedRoot::parse_words(name, value)?)
            }
            SettingName::Volume(name) => Self::Volume(Volume::parse_words(name, value)?),
        })
    }

    /// The setting without its value.
    pub fn name(&self) -> SettingName {
        match self {
            Self::HostName(_) => Single::HostName.into(),
            Self::NameServers(_) => Single::NameServers.into(),
            Self::SearchDomains(_) => Single::SearchDomains.into(),
            Self::TimeServers(_) => Single::TimeServers.into(),
            Self::Motd(_) => Single::Motd.into(),
            Self::KernelModule(module) => SettingName::KernelModule(module.name().clone()),
            Self::KernelParameter(KernelParameter { key, .. }) => {
                SettingName::KernelParameter(key.clone())
            }
            Self::Kubelet(field) => SettingName::Kubelet(field.key().clone()),
            Self::Mount(mount) => SettingName::Mount(mount.target().clone()),
            Self::Network(setting) => SettingName::Network(setting.name()),
            Self::NodeLabel(label) => SettingName::NodeLabel(label.key.clone()),
            Self::NodeTaint(taint) => SettingName::NodeTaint(taint.name.clone()),
            Self::Proxy(_) => SettingName::Proxy,
            Self::RegistryCredential(one) => {
                SettingName::RegistryCredential(one.registry().clone())
            }
            Self::RegistryMirror(mirror) => SettingName::RegistryMirror(mirror.registry().clone()),
            Self::StaticPod(pod) => SettingName::StaticPod(pod.name().clone()),
            Self::TrustedRoot(root) => SettingName::TrustedRoot(root.name().clone()),
            Self::Volume(volume) => SettingName::Volume(volume.name().clone()),
        }
    }

    /// The value as words with one space between, with its secret if it has one.
    pub fn value(&self) -> String {
        match self {
            Self::HostName(name) => name.to_string(),
            Self::NameServers(servers) => servers.to_string(),
            Self::SearchDomains(domains) => domains.to_string(),
            Self::TimeServers(servers) => servers.to_string(),
            Self::Motd(motd) => motd.word(),
            Self::KernelModule(module) => module.word().to_owned(),
            Self::KernelParameter(KernelParameter { value, .. }) => value.to_string(),
            Self::Kubelet(field) => field.value().to_owned(),
            Self::Mount(mount) => mount.words(),
            Self::Network(setting) => setting.value(),
            Self::NodeLabel(label) => label.value.to_string(),
            Self::NodeTaint(taint) => taint.value.to_string(),
            Self::Proxy(proxy) => proxy.words(),
            Self::RegistryCredential(one) => one.words().to_string(),
            Self::RegistryMirror(mirror) => mirror.words(),
            Self::StaticPod(pod) => pod.words(),
            Self::TrustedRoot(root) => root.certificates().to_string(),
            Self::Volume(volume) => volume.disk().word(),
        }
    }

    /// The value without its secret.
    pub fn shown(&self) -> String {
        match self {
            Self::Network(setting) => setting.shown(),
            Self::RegistryCredential(one) => one.redacted(),
            _ => self.value(),
        }
    }

    /// The line that [`parse`](Self::parse) reads, with its secret if it has one: for the wire, and
    /// for files that root alone reads.
    pub fn line(&self) -> String {
        format!("{} {}", self.name(), self.value())
    }
}

impl SettingName {
    /// Reads a name.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn parse(line: &str) -> Result<Self, Refusal> {
        match Self::split(line)? {
            (name, "") => Ok(name),
            _ => Err(unknown(line)),
        }
    }

    /// Reads a name, and returns the text behind it.
    pub(crate) fn split(line: &str) -> Result<(Self, &str), Refusal> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == KERNEL_MODULE {
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::KernelModule(ModuleName::parse(name)?), value));
        }
        if word == KERNEL_PARAMETER {
            let (key, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::KernelParameter(ParameterKey::parse(key)?), value));
        }
        if word == KUBELET {
            let (key, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::Kubelet(KubeletKey::parse(key)?), value));
        }
        if word == MOUNT {
            let (target, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::Mount(MountPath::parse(target)?), value));
        }
        if word == NODE_LABEL {
            let (key, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::NodeLabel(LabelKey::parse(key)?), value));
        }
        if word == NODE_TAINT {
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::NodeTaint(TaintName::parse(name)?), value));
        }
        if word == PROXY {
            return Ok((Self::Proxy, rest));
        }
        if word == REGISTRY_CREDENTIAL {
            let (registry, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::RegistryCredential(RegistryName::parse(registry)?), value));
        }
        if word == REGISTRY_MIRROR {
            let (registry, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::RegistryMirror(RegistryName::parse(registry)?), value));
        }
        if word == STATIC_POD {
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::StaticPod(PodName::of_pod(name)?), value));
        }
        if word == TRUSTED_ROOT {
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::TrustedRoot(RootName::parse(name)?), value));
        }
        if word == VOLUME {
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok((Self::Volume(VolumeName::parse(name)?), value));
        }
        if let Some(kind) = NetworkKind::of_word(word) {
            let (name, value) = NetworkName::split(kind, rest)?;
            return Ok((Self::Network(name), value));
        }
        let single = Single::ALL.into_iter().find(|single| single.word() == word);
        Ok((single.ok_or_else(|| unknown(line))?.into(), rest))
    }
}

impl From<Single> for SettingName {
    fn from(single: Single) -> Self {
        Self::Single(single)
    }
}

/// The refusal of a line. What follows its first word may be a secret of a newer release.
fn unknown(line: &str) -> Refusal {
    let start: String = line.chars().take_while(|one| *one != ' ').take(32).collect();
    Refusal::malformed(format!("`{start}` is not a setting of the host"))
}

impl fmt::Display for SettingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(single) => f.write_str(single.word()),
            Self::KernelModule(name) => write!(f, "{KERNEL_MODULE} {name}"),
            Self::KernelParameter(key) => write!(f, "{KERNEL_PARAMETER} {key}"),
            Self::Kubelet(key) => write!(f, "{KUBELET} {key}"),
            Self::Mount(target) => write!(f, "{MOUNT} {target}"),
            Self::Network(name) => name.fmt(f),
            Self::NodeLabel(key) => write!(f, "{NODE_LABEL} {key}"),
            Self::NodeTaint(name) => write!(f, "{NODE_TAINT} {name}"),
            Self::Proxy => f.write_str(PROXY),
            Self::RegistryCredential(registry) => write!(f, "{REGISTRY_CREDENTIAL} {registry}"),
            Self::RegistryMirror(registry) => write!(f, "{REGISTRY_MIRROR} {registry}"),
            Self::StaticPod(name) => write!(f, "{STATIC_POD} {name}"),
            Self::TrustedRoot(name) => write!(f, "{TRUSTED_ROOT} {name}"),
            Self::Volume(name) => write!(f, "{VOLUME} {name}"),
        }
    }
}

impl fmt::Display for Setting {
    /// Writes the line for people: without a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_setting_is_one_line() {
        for line in [
            "host-name edge-7.example.org",
            "name-servers 10.0.2.3 fec0::3",
            "search-domains example.org _tcp.example.org",
            "time-servers 10.0.2.4 time.example:123",
            "motd Rack%207%0a100%25%20ours",
            "kernel-module dm_crypt built-in",
            "kernel-parameter net.ipv4.tcp_rmem 4096 8192 16384",
            "address eth0 192.0.2.7 24",
            "address eth0 2001:db8::7 64",
            "route 0.0.0.0/0 512 via 192.0.2.1 on eth0",
            "route 2001:db8:1::/48 1 via fe80::1 on eth0",
            "route 198.51.100.0/24 4294967295 on eth0.7",
            "link eth0 mtu 1400",
            "link eth0 dhcp off",
            "firewall-rule rest drop",
            "firewall-rule api accept priority=7 protocol=tcp ports=50000 sources=::/0 links=eth*",
            "kubelet-config maxPods 50",
            "kubelet-config evictionHard.memory.available 10%",
            "node-label example.org/rack 7",
            "node-label topology.kubernetes.io/zone -",
            "node-taint dedicated:NoSchedule database",
            "node-taint example.org/a:PreferNoSchedule -",
            "mount /tmp tmpfs tmpfs",
            "mount /run/mnt/a tmpfs scratch ro,exec,size=4097",
            "mount /run/mnt/b bind /srv exec",
            "registry-credential docker.io user=a password=YQ==",
            "registry-credential localhost:5000 token=a plain-http",
            "registry-mirror docker.io mirror=https://a:5000 pull=https://[::1]/b ca=MIIB,MIIC",
            "registry-mirror localhost:5000 server=https://c",
            "proxy http=http://proxy.example:3128 https=https://[::1]:443 no-proxy=a,10.0.0.0/8",
            "static-pod web container=a image=b",
            "static-pod web host-network volume=c:memory:1Mi container=a image=b mount=c:ro:/c",
            "trusted-root corporate MIIB,MIIC",
            "volume db serial=vol0123456789abcdef0",
            "volume logs-2 wwid=t10.ATA%20%20QEMU",
        ] {
            let setting = Setting::parse(line).unwrap();
            assert_eq!(setting.line(), line);
            let name = setting.name();
            assert!(line.starts_with(&format!("{name} ")));
            assert_eq!(SettingName::parse(&name.to_string()), Ok(name));
        }
    }

    #[test]
    fn a_setting_without_a_valid_value_is_refused() {
        for line in [
            "",
            "host-name",
            "host-name a b",
            "name-servers",
            "name-servers ns.example.org",
            "name-servers 10.0.2.1 10.0.2.2 10.0.2.3 10.0.2.4",
            "search-domains a;b",
            "search-domains a b c d e f g",
            "time-servers a/b",
            "kernel-module kvm",
            "kernel-module kvm loaded",
            "kernel-module ../kvm built-in",
            "kernel-parameter vm.swappiness",
            "kernel-parameter ../x 1",
            "colour red",
            "motd",
            "motd a b",
            "motd %1b[2J",
            "address eth0 192.0.2.7",
            "address eth0 192.0.2.7 33",
            "address eth0 192.0.2.7 24 25",
            "address lo 192.0.2.7 24",
            "address eth0 127.0.0.1 8",
            "route default 512 via 192.0.2.1 on eth0",
            "route 0.0.0.0/0 0 via 192.0.2.1 on eth0",
            "route 0.0.0.0/0 4294967296 via 192.0.2.1 on eth0",
            "route 0.0.0.0/0 512 via 2001:db8::1 on eth0",
            "route 0.0.0.0/0 512 via 224.0.0.1 on eth0",
            "route 0.0.0.0/0 512 via 192.0.2.1",
            "link eth0 mtu 575",
            "link eth0 mtu 65536",
            "link eth0 dhcp",
            "link eth0 speed 10",
            "mount /run/mnt/a",
            "mount /run/mnt/a tmpfs",
            "mount /run/mnt/a tmpfs tmpfs ro exec",
            "mount /run/mnt/a tmpfs tmpfs suid",
            "mount /run/mnt/a tmpfs tmpfs dev",
            "mount /run/mnt/../a tmpfs tmpfs",
            "mount run/mnt/a tmpfs tmpfs",
            "mount /run/mnt/a proc proc",
            "mount /run/mnt/a bind /srv size=1m",
            "registry-credential docker.io",
            "registry-credential docker.io/library token=a",
            "registry-credential docker.io token=a plain-http",
            "registry-mirror docker.io",
            "registry-mirror _default mirror=https://a",
            "registry-mirror ../a mirror=https://a",
            "registry-mirror docker.io mirror=http://a",
            "registry-mirror docker.io mirror=https://u:p@a",
            "registry-mirror docker.io mirror=https://a push=https://b",
            "registry-mirror docker.io mirror=https://a ca=/etc/ca.crt",
        ] {
            assert!(Setting::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_name_of_no_setting_is_refused() {
        for line in [
            "",
            "host-name a",
            "kernel-module",
            "kernel-module kvm built-in",
            "kernel-parameter",
            "kernel-parameter a.b 1",
            "colour",
            "motd a",
            "address eth0",
            "link eth0",
            "link eth0 mtu 1400",
            "route 0.0.0.0/0",
            "firewall-rule",
            "firewall-rule api accept",
            "mount",
            "mount /",
            "mount /run/mnt/a tmpfs",
            "registry-credential",
            "registry-credential docker.io token=a",
            "registry-mirror",
            "registry-mirror /",
            "registry-mirror docker.io server=https://c",
        ] {
            assert!(SettingName::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_secret_is_in_the_line_alone() {
        let line = "registry-credential a user=b password=aHVudGVyMg==";
        let setting = Setting::parse(line).unwrap();
        assert_eq!(setting.line(), line);
        assert_eq!(setting.to_string(), "registry-credential a user=b password=(hidden)");
        assert_eq!(setting.shown(), "user=b password=(hidden)");
        assert!(!format!("{setting:?}").contains("unter2"));
        for line in ["registry-tokens hunter2", "registry-credential a hunter2"] {
            assert!(!Setting::parse(line).unwrap_err().reason.contains("hunter2"), "{line}");
        }
    }

    #[test]
    fn a_setting_of_proxies_and_authorities_without_a_valid_value_is_refused() {
        for line in [
            "proxy",
            "proxy no-proxy=a",
            "proxy http=http://u:p@a:1",
            "proxy http=socks5://a:1",
            "proxy http=http://a:1 no-proxy=*",
            "trusted-root corporate",
            "trusted-root corporate /etc/ca.crt",
            "trusted-root ../a MIIB",
        ] {
            assert!(Setting::parse(line).is_err(), "{line}");
        }
        for line in ["proxy http=http://a:1", "trusted-root", "trusted-root a MIIB"] {
            assert!(SettingName::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_volume_without_one_disk_is_refused() {
        for line in [
            "volume db",
            "volume db /dev/sdb",
            "volume db device=sdb",
            "volume db serial=a wwid=b",
            "volume ../db serial=a",
        ] {
            assert!(Setting::parse(line).is_err(), "{line}");
        }
        for line in ["volume", "volume ..", "volume db serial=a"] {
            assert!(SettingName::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_setting_of_the_kubelet_without_a_valid_value_is_refused() {
        for line in [
            "kubelet-config maxPods",
            "kubelet-config maxPods 50 60",
            "kubelet-config evictionHard 10%",
            "kubelet-config readOnlyPort 10255",
            "node-label rack",
            "node-label rack a b",
            "node-label kubernetes.io/a b",
            "node-taint a",
            "node-taint a:NoSchedule",
            "node-taint a:noschedule -",
        ] {
            assert!(Setting::parse(line).is_err(), "{line}");
        }
        for line in [
            "kubelet-config",
            "kubelet-config readOnlyPort",
            "node-label",
            "node-label rack 7",
            "node-taint a",
        ] {
            assert!(SettingName::parse(line).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_from_any_line_is_written_and_read_again(line in
            "(host-name|name-servers|search-domains|time-servers|motd|kernel-parameter|\\PC{0,6}) \
             ([ -~]{0,12}|[0-9a-f.: \\[\\]]{0,24}|vm\\.swappiness [0-9 ]{0,9})|\
             address eth0 [0-9a-f.:]{3,9} [0-9]{0,3}|link [a-z0-9.]{0,16} (mtu|dhcp) [a-z0-9]{0,5}|\
             link [a-z]{0,4} made (vlan|bridge|bond)\
             ( (id|parent|protocol|ports|stp|mode|miimon|primary|xmit-hash-policy|lacp-rate)\
             =([0-9]{0,4}|eth0|a,b|on|fast|layer2\\+3|802\\.(1Q|1ad|3ad)|active-backup)){0,4}|\
             route ([0-9.]{7}|[0-9a-f:]{0,9})/[0-9]{0,3} [0-9]{0,3} (table [0-9]{1,3} )?\
             (via [0-9a-f.:]{3,9} )?on eth0|\
             routing-rule ipv[46] 2[0-9]{3} table=[0-9]{1,3}( (from|to|iif|oif|fwmark)\
             =([0-9a-f.:]{3,9}/[0-9]{1,3}|lo|eth0|0x[0-9a-f]{0,3}(/[0-9]{1,3})?)){0,3}|\
             firewall-rule [a-z-]{0,3} (accept|drop)\
             ( (priority|protocol|ports|sources|links)\
             =([0-9,-]{0,9}|tcp|icmp(v6)?|[0-9a-f.:]{3,9}/[0-9]{1,3}|[a-z*,]{0,5})){0,4}|\
             kernel-module [a-z_./-]{0,3} (built-in|[a-z]{0,3})|\
             kubelet-config (maxPods|evictionHard\\.(memory|nodefs)\\.available) [0-9%Mi]{0,4}|\
             node-label [a-z./]{0,6} [a-z.-]{0,3}|\
             node-taint [a-z./]{0,4}:(NoSchedule|NoExecute|[a-z]{0,2}) [a-z.-]{0,3}|\
             mount (/[a-z.]{0,3}){0,3} (tmpfs|bind) [/a-z]{0,4}\
             ( (ro|exec|size=[0-9]{0,3}[kmg]|,){0,4})?|\
             registry-mirror [a-z.:0-9_/]{0,6}( (mirror|pull|server)=https://[a-z0-9.:/\\[\\]]{0,6}\
             | ca=(MI[A-D]{2}|,){0,3}){0,3}|\
             proxy( https?=https?://[a-z0-9.:\\[\\]@]{0,6}| no-proxy=[a-z0-9.:/,]{0,9}){0,3}|\
             static-pod [a-z./-]{0,3}( (host-(pid|network|ipc)|grace=[0-9]{0,3}))?( (init-)?\
             container=[a-z-]{1,2} image=[a-z:]{1,3}( (arg=[ -~]{0,3}|user=[0-9]{1,2}|privileged))?\
             ){0,2}|\
             trusted-root [a-z./-]{0,3} (MI[A-D]{2}|,){0,3}|\
             volume [a-z./-]{0,3} (serial|wwid)=[ -~]{0,6}"
        ) {
            if let Ok(setting) = Setting::parse(&line) {
                prop_assert_eq!(Setting::parse(&setting.to_string()), Ok(setting));
            }
        }
    }
}
