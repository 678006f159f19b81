//! The section `[api]`: the clients that may use the node API over the network.

use crate::Certificates;

/// The clients that may use the node API: the authorities of their certificates.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Api {
    /// The certificates of the CAs of the clients, in place of those that the image names.
    pub clients: Certificates,
}
