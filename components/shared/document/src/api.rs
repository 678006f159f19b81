//! The section `[api]`: who may use the node API over the network.

use crate::Certificates;

/// Who may.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Api {
    /// The certificates of the CAs of the clients, in place of those that the image names.
    pub clients: Certificates,
}
