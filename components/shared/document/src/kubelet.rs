//! `[kubelet]`: how the kubelet registers the node, and fields of its configuration.

use crate::credential_providers::CredentialProviders;
use crate::label::{Labels, Taint};
use crate::node_addresses::NodeAddresses;
use osbuild_protocol::KubeletField;
use serde::Deserialize;

/// How the kubelet registers the node. Each missing key leaves the kubelet's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Kubelet {
    /// The node's addresses.
    pub node_ip: Option<NodeAddresses>,
    /// Labels that the node has at once when it is registered. Later they are the administrator's.
    #[serde(default)]
    pub labels: Labels,
    /// Taints that the node has at once when it is registered. Later they are the administrator's.
    #[serde(default, deserialize_with = "crate::label::taints")]
    pub taints: Vec<Taint>,
    /// The origin of the node's addresses and zone, if it is not the kubelet.
    pub cloud_provider: Option<CloudProvider>,
    /// The machine's identifier at its cloud.
    pub provider_id: Option<String>,
    /// Programs that give the credentials of registries.
    pub credential_providers: Option<CredentialProviders>,
    /// Fields of its configuration, of those that the image allows.
    #[serde(default, deserialize_with = "crate::kubelet_config::fields")]
    pub config: Vec<KubeletField>,
}

/// The origin of the node's addresses and zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudProvider {
    /// A cloud controller manager in the cluster. The node is tainted until that has answered.
    External,
}
