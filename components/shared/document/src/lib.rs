//! The node document: one TOML file in which a node's owner configures it. A document with any
//! mistake is refused as a whole, so that no node runs with half of it. A mistake is one that
//! the text shows: a certificate of `[api]` must be whole, but neither its dates are checked nor
//! whether it may sign others.
//!
//! The crate is pure: it performs no I/O.

mod api;
mod bounded;
mod certificates;
mod cluster;
mod control_plane;
mod credential_provider;
mod credential_providers;
mod host;
mod kernel_module;
mod kubelet;
mod kubelet_config;
mod label;
mod mistakes;
mod motd;
mod mount;
mod network;
mod node_addresses;
mod path;
mod proxy;
mod registry;
mod seccomp;
mod static_pod;
mod swap;
mod system_image;
mod trusted_root;
mod volume;

pub use api::Api;
pub use certificates::Certificates;
pub use credential_providers::CredentialProviders;
pub use host::{KernelParameters, Resolver};
pub use kubelet::{CloudProvider, Kubelet};
pub use label::{Labels, Taint};
pub use mistakes::Mistake;
pub use motd::Section as MotdSection;
pub use network::Settings as NetworkEntry;
pub use node_addresses::NodeAddresses;
use osbuild_abi::osd::PORT;
pub use osbuild_protocol::{BootstrapToken, Motd};
use osbuild_protocol::{
    ClusterJoin, ControlPlane, CredentialProvider, HostName, KernelModule, Mount, Proxy,
    RegistryCredential, RegistryMirror, SeccompFilter, Setting, StaticPod, Swap, SystemImage,
    TimeServers, TrustedRoot, Volume, rule_that_closes,
};
pub use path::AbsolutePath;
use std::fmt;

/// The JSON Schema (draft 2020-12) of a document, for editors. It refuses what has the wrong form;
/// rules between several values are [`Document::parse`]'s alone.
pub const SCHEMA: &str = include_str!("../schema.json");

/// A whole document. A section that is missing changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Document {
    /// The node's host name.
    #[serde(default, deserialize_with = "host::hostname")]
    pub hostname: Option<HostName>,
    /// The servers by which it sets its clock.
    #[serde(default, deserialize_with = "host::list")]
    pub time_servers: Option<TimeServers>,
    /// The message on its consoles.
    pub motd: Option<motd::Section>,
    /// How it resolves names.
    #[serde(default)]
    pub resolver: Resolver,
    /// Settings of its links.
    #[serde(default, deserialize_with = "network::links")]
    pub links: Vec<NetworkEntry>,
    /// Its static addresses.
    #[serde(default, deserialize_with = "network::addresses")]
    pub addresses: Vec<NetworkEntry>,
    /// Its static routes.
    #[serde(default, deserialize_with = "network::routes")]
    pub routes: Vec<NetworkEntry>,
    /// Rules that choose the table of routes for a packet.
    #[serde(default, deserialize_with = "network::routing_rules")]
    pub routing_rules: Vec<NetworkEntry>,
    /// Rules for packets to it.
    #[serde(default, deserialize_with = "network::firewall_rules")]
    pub firewall_rules: Vec<NetworkEntry>,
    /// Rules that translate addresses in packets that it forwards.
    #[serde(default, deserialize_with = "network::nat")]
    pub nat: Vec<NetworkEntry>,
    /// Its mounts, where the image allows them.
    #[serde(default, deserialize_with = "mount::mounts")]
    pub mounts: Vec<Mount>,
    /// Disks beside its own, for pods.
    #[serde(default, deserialize_with = "volume::volumes")]
    pub volumes: Vec<Volume>,
    /// Its swap in compressed memory.
    #[serde(default, deserialize_with = "swap::swap")]
    pub swap: Option<Swap>,
    /// The proxy of its own programs.
    #[serde(default, deserialize_with = "proxy::proxy")]
    pub proxy: Option<Proxy>,
    /// Authorities that its own programs trust beside those of the image.
    #[serde(default, deserialize_with = "trusted_root::roots")]
    pub trusted_roots: Vec<TrustedRoot>,
    /// From where it pulls the images of registries.
    #[serde(default, deserialize_with = "registry::mirrors")]
    pub registry_mirrors: Vec<RegistryMirror>,
    /// The credentials that it sends to hosts that serve images.
    #[serde(default, deserialize_with = "registry::credentials")]
    pub registry_credentials: Vec<RegistryCredential>,
    /// Seccomp profiles that pods may name.
    #[serde(default, deserialize_with = "seccomp::profiles")]
    pub seccomp_profiles: Vec<SeccompFilter>,
    /// Programs that give the kubelet the credentials of registries.
    #[serde(default, deserialize_with = "credential_provider::providers")]
    pub credential_providers: Vec<CredentialProvider>,
    /// Images of containers that it keeps.
    #[serde(default, deserialize_with = "system_image::images")]
    pub system_images: Vec<SystemImage>,
    /// Pods that it runs by itself.
    #[serde(default, deserialize_with = "static_pod::pods")]
    pub static_pods: Vec<StaticPod>,
    /// Modules that its kernel shall have built in.
    #[serde(default, deserialize_with = "kernel_module::modules")]
    pub kernel_modules: Vec<KernelModule>,
    /// Parameters of its kernel, of those that the image allows.
    #[serde(default)]
    pub kernel_parameters: KernelParameters,
    /// The clients that may use the node API over the network.
    pub api: Option<Api>,
    /// The cluster that the node joins.
    #[serde(default, deserialize_with = "cluster::cluster")]
    pub cluster: Option<ClusterJoin>,
    /// The configuration of the control plane that runs on it.
    #[serde(default, deserialize_with = "control_plane::plane")]
    pub control_plane: Option<ControlPlane>,
    /// How the kubelet registers the node.
    #[serde(default)]
    pub kubelet: Kubelet,
}

/// The reason why a document is refused, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line of the first mistake, from 1.
    pub line: usize,
    /// The mistake, in one line.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for Refusal {}

impl Document {
    /// The settings of the host.
    pub fn settings(&self) -> Vec<Setting> {
        let Document { hostname, time_servers, motd, resolver, kernel_parameters, .. } = self;
        let Resolver { nameserver, search } = resolver;
        let single = [
            hostname.clone().map(Setting::HostName),
            nameserver.clone().map(Setting::NameServers),
            search.clone().map(Setting::SearchDomains),
            time_servers.clone().map(Setting::TimeServers),
            motd.clone().map(|motd| Setting::Motd(motd.text)),
        ];
        let parameters = kernel_parameters.iter().map(Setting::KernelParameter);
        let cluster = self.cluster.iter().cloned().map(Setting::ClusterJoin);
        let plane = self.control_plane.iter().cloned().map(Setting::ControlPlane);
        let modules = self.kernel_modules.iter().cloned().map(Setting::KernelModule);
        let rules = [&self.routing_rules, &self.firewall_rules, &self.nat];
        let network = [&self.links, &self.addresses, &self.routes].into_iter().chain(rules);
        let network = network.flatten();
        let network = network.flat_map(NetworkEntry::iter).cloned().map(Setting::Network);
        let mounts = self.mounts.iter().cloned().map(Setting::Mount);
        let volumes = self.volumes.iter().cloned().map(Setting::Volume);
        let swap = self.swap.into_iter().map(Setting::Swap);
        let proxy = self.proxy.iter().cloned().map(Setting::Proxy);
        let roots = self.trusted_roots.iter().cloned().map(Setting::TrustedRoot);
        let registries = self.registry_mirrors.iter().cloned().map(Setting::RegistryMirror);
        let logins = self.registry_credentials.iter().cloned().map(Setting::RegistryCredential);
        let fields = self.kubelet.config.iter().cloned().map(Setting::Kubelet);
        let labels = self.kubelet.labels.iter().map(Setting::NodeLabel);
        let taints = self.kubelet.taints.iter().map(|Taint(taint)| taint.clone());
        let registered = labels.chain(taints.map(Setting::NodeTaint));
        let several = cluster
            .chain(plane)
            .chain(modules)
            .chain(parameters)
            .chain(network)
            .chain(mounts)
            .chain(volumes)
            .chain(swap)
            .chain(proxy)
            .chain(roots)
            .chain(registries);
        let profiles = self.seccomp_profiles.iter().cloned().map(Setting::SeccompProfile);
        let providers = self.credential_providers.iter().cloned();
        let providers = providers.map(Setting::CredentialProvider);
        let images = self.system_images.iter().cloned().map(Setting::SystemImage);
        let pods = self.static_pods.iter().cloned().map(Setting::StaticPod);
        let several = several
            .chain(logins)
            .chain(profiles)
            .chain(providers)
            .chain(images)
            .chain(pods)
            .chain(fields)
            .chain(registered);
        single.into_iter().flatten().chain(several).collect()
    }

    /// Effects of the document that its author may not expect, each in one line.
    pub fn warnings(&self) -> Vec<String> {
        let rules = self.firewall_rules.iter().flat_map(NetworkEntry::iter);
        let closing = rule_that_closes(rules, PORT);
        let warning = closing.map(|rule| {
            let name = rule.name();
            format!(
                "the firewall rule `{name}` closes port {PORT}, the node API, to everybody on the \
                 network"
            )
        });
        let has_both = self.control_plane.is_some() && self.cluster.is_some();
        let both = has_both.then(|| {
            "with `[cluster]`, the kubelet joins that cluster and not the one of `[control-plane]`"
                .to_owned()
        });
        warning.into_iter().chain(both).collect()
    }

    /// Parses a document.
    ///
    /// # Errors
    /// It is not TOML 1.1, has an unknown key, or a value that the kubelet would not accept.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
            Refusal { line, reason: error.message().replace('\n', ", ") }
        })
    }
}

#[cfg(test)]
mod tests;
