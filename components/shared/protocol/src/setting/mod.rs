//! The settings of the host that the socket `host` changes. Each is one line of text: on the wire,
//! and in the file on DATA in which `init` keeps them.

mod authorities;
mod cluster;
mod control_plane;
mod credential_provider;
mod domain;
pub(crate) mod escape;
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
mod seccomp;
mod secret;
mod start;
mod swap;
mod system_image;
mod time_server;
mod tried;
mod trusted_root;
mod volume;

pub use authorities::Authorities;
pub use cluster::{BootstrapToken, ClusterDomain, ClusterJoin, ClusterState, Readiness, ServerUrl};
pub use control_plane::ControlPlane;
pub use credential_provider::{CredentialProvider, MAX_PROVIDERS, ProviderName, ProviderOptions};
pub use domain::Domain;
pub use kernel_module::{KernelModule, MAX_MODULES, ModuleName};
pub use kernel_parameter::{KernelParameter, MAX_PARAMETERS, ParameterKey, ParameterValue, words};
pub use kubelet::{KubeletField, KubeletKey, KubeletValue};
pub use list::{Entry, List};
pub use motd::{MAX_MOTD_COLUMNS, MAX_MOTD_LINES, Motd};
pub use mount::{MAX_MOUNTS, Mount, MountOptions, MountPath, MountSource, TmpfsSize};
pub use network::{
    AllowedNetwork, Bond, BondMode, BondOptions, Bridge, FirewallRule, Forwarding, HashPolicy,
    IpFamily, KEY, LacpRate, LinkName, LinkPattern, LinkState, MAX_NETWORK_SETTINGS, MadeLink,
    Metric, Mtu, Nat, NatOptions, NetworkKind, NetworkName, NetworkSetting, NetworkSettings,
    PacketMark, PeerOptions, PeerState, PortRange, Ports, PublicKey, RouteTable, RoutingPriority,
    RoutingRule, RoutingRuleOptions, RuleAction, RuleLink, RuleName, RuleOptions, RuleOrder,
    RulePriority, RuleProtocol, SecretKey, StaticAddress, StaticRoute, Subnet, Translation, Vlan,
    VlanProtocol, WireGuard, WireGuardOptions, WireGuardPeer, WireGuardState, firewall_conflict,
    link_conflicts, nat_conflict, rule_that_closes,
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
pub use seccomp::{
    MAX_PROFILES, SeccompAction, SeccompArgument, SeccompFilter, SeccompName, SeccompRule,
};
pub use secret::{REDACTED, REDACTED_CHANGE, Secret};
pub use start::StartSettings;
pub use swap::{Swap, SwapAmounts, SwapSize, SwapState};
pub use system_image::{MAX_SYSTEM_IMAGES, SystemImage, SystemImageName, SystemImageState};
pub use time_server::TimeServer;
pub use tried::{TryState, TryTime};
pub use trusted_root::{MAX_ROOTS, RootName, TrustedRoot};
pub use volume::{
    DiskId, DiskText, MAX_VOLUMES, Volume, VolumeBacking, VolumeName, VolumePhase, VolumeState,
};

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
    /// The cluster that the node joins.
    ClusterJoin(ClusterJoin),
    /// The configuration of the control plane that runs on the node.
    ControlPlane(ControlPlane),
    /// A program that gives the kubelet the credentials of registries.
    CredentialProvider(CredentialProvider),
    /// A module that the kernel shall have built in.
    KernelModule(KernelModule),
    /// A parameter of the kernel.
    KernelParameter(KernelParameter),
    /// A field of the kubelet's configuration.
    Kubelet(KubeletField),
    /// A mount.
    Mount(Mount),
    /// An address, a route, a setting of a link, a firewall rule, a routing rule, or a NAT rule.
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
    /// A seccomp profile for pods.
    SeccompProfile(SeccompFilter),
    /// A static pod.
    StaticPod(StaticPod),
    /// Swap in compressed memory.
    Swap(Swap),
    /// An image of containers that the node keeps.
    SystemImage(SystemImage),
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
    /// The cluster that the node joins.
    ClusterJoin,
    /// The configuration of the control plane that runs on the node.
    ControlPlane,
    /// A program that gives the kubelet the credentials of registries, by its name.
    CredentialProvider(ProviderName),
    /// A module that the kernel shall have built in, by its name.
    KernelModule(ModuleName),
    /// A parameter of the kernel.
    KernelParameter(ParameterKey),
    /// A field of the kubelet's configuration.
    Kubelet(KubeletKey),
    /// A mount, by its target.
    Mount(MountPath),
    /// An address, a route, a setting of a link, a firewall rule, a routing rule, or a NAT rule.
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
    /// A seccomp profile for pods, by its name.
    SeccompProfile(SeccompName),
    /// A static pod, by its name.
    StaticPod(PodName),
    /// Swap in compressed memory.
    Swap,
    /// An image of containers that the node keeps, by its name.
    SystemImage(SystemImageName),
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

const CLUSTER_JOIN: &str = "cluster-join";
const CONTROL_PLANE: &str = "control-plane";
const CREDENTIAL_PROVIDER: &str = "credential-provider";
const KERNEL_MODULE: &str = "kernel-module";
const KERNEL_PARAMETER: &str = "kernel-parameter";
const KUBELET: &str = "kubelet-config";
const MOUNT: &str = "mount";
const NODE_LABEL: &str = "node-label";
const NODE_TAINT: &str = "node-taint";
const PROXY: &str = "proxy";
const REGISTRY_CREDENTIAL: &str = "registry-credential";
const REGISTRY_MIRROR: &str = "registry-mirror";
const SECCOMP_PROFILE: &str = "seccomp-profile";
const STATIC_POD: &str = "static-pod";
const SWAP: &str = "swap";
const SYSTEM_IMAGE: &str = "system-image";
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
            SettingName::ClusterJoin => Self::ClusterJoin(ClusterJoin::parse_words(value)?),
            SettingName::ControlPlane => Self::ControlPlane(ControlPlane::parse_word(value)?),
            SettingName::CredentialProvider(name) => {
                Self::CredentialProvider(CredentialProvider::parse_words(name, value)?)
            }
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
            SettingName::SeccompProfile(name) => {
                Self::SeccompProfile(SeccompFilter::parse_words(name, value)?)
            }
            SettingName::StaticPod(name) => Self::StaticPod(StaticPod::parse_words(name, value)?),
            SettingName::Swap => Self::Swap(Swap::parse_words(value)?),
            SettingName::SystemImage(name) => {
                Self::SystemImage(SystemImage::parse_word(name, value)?)
            }
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
            Self::ClusterJoin(_) => SettingName::ClusterJoin,
            Self::ControlPlane(_) => SettingName::ControlPlane,
            Self::CredentialProvider(one) => SettingName::CredentialProvider(one.name().clone()),
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
            Self::SeccompProfile(one) => SettingName::SeccompProfile(one.name().clone()),
            Self::StaticPod(pod) => SettingName::StaticPod(pod.name().clone()),
            Self::Swap(_) => SettingName::Swap,
            Self::SystemImage(image) => SettingName::SystemImage(image.name().clone()),
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
            Self::ClusterJoin(join) => join.words().to_string(),
            Self::ControlPlane(plane) => plane.word(),
            Self::CredentialProvider(provider) => provider.words(),
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
            Self::SeccompProfile(profile) => profile.words(),
            Self::StaticPod(pod) => pod.words(),
            Self::Swap(swap) => swap.words(),
            Self::SystemImage(image) => image.word().to_owned(),
            Self::TrustedRoot(root) => root.certificates().to_string(),
            Self::Volume(volume) => volume.backing().word(),
        }
    }

    /// The value without its secret.
    pub fn shown(&self) -> String {
        match self {
            Self::ClusterJoin(join) => join.redacted(),
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
        let (first, value) = rest.split_once(' ').unwrap_or((rest, ""));
        let name = match word {
            CLUSTER_JOIN => return Ok((Self::ClusterJoin, rest)),
            CONTROL_PLANE => return Ok((Self::ControlPlane, rest)),
            PROXY => return Ok((Self::Proxy, rest)),
            SWAP => return Ok((Self::Swap, rest)),
            CREDENTIAL_PROVIDER => Self::CredentialProvider(ProviderName::parse(first)?),
            KERNEL_MODULE => Self::KernelModule(ModuleName::parse(first)?),
            KERNEL_PARAMETER => Self::KernelParameter(ParameterKey::parse(first)?),
            KUBELET => Self::Kubelet(KubeletKey::parse(first)?),
            MOUNT => Self::Mount(MountPath::parse(first)?),
            NODE_LABEL => Self::NodeLabel(LabelKey::parse(first)?),
            NODE_TAINT => Self::NodeTaint(TaintName::parse(first)?),
            REGISTRY_CREDENTIAL => Self::RegistryCredential(RegistryName::parse(first)?),
            REGISTRY_MIRROR => Self::RegistryMirror(RegistryName::parse(first)?),
            SECCOMP_PROFILE => Self::SeccompProfile(SeccompName::parse(first)?),
            STATIC_POD => Self::StaticPod(PodName::of_pod(first)?),
            SYSTEM_IMAGE => Self::SystemImage(SystemImageName::parse(first)?),
            TRUSTED_ROOT => Self::TrustedRoot(RootName::parse(first)?),
            VOLUME => Self::Volume(VolumeName::parse(first)?),
            _ => return Self::split_other(word, rest, line),
        };
        Ok((name, value))
    }

    /// The same for a setting of the network, or one of which a node has one.
    fn split_other<'a>(word: &str, rest: &'a str, line: &str) -> Result<(Self, &'a str), Refusal> {
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
            Self::ClusterJoin => f.write_str(CLUSTER_JOIN),
            Self::ControlPlane => f.write_str(CONTROL_PLANE),
            Self::CredentialProvider(name) => write!(f, "{CREDENTIAL_PROVIDER} {name}"),
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
            Self::SeccompProfile(name) => write!(f, "{SECCOMP_PROFILE} {name}"),
            Self::StaticPod(name) => write!(f, "{STATIC_POD} {name}"),
            Self::Swap => f.write_str(SWAP),
            Self::SystemImage(name) => write!(f, "{SYSTEM_IMAGE} {name}"),
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
mod tests;
