//! `NodeAddresses.osbuild`: where others reach the node, as `init` reports it.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{NODE, column, names};
use osbuild_cosi::v1::NodeAddressSpec;
use osbuild_protocol::NodeStatus;

pub const TYPE: ObservedType = ObservedType {
    names: names("NodeAddresses", "NodeAddress"),
    columns: &[column("Addresses", "{.addresses[:]}")],
    max_count: 1,
};

/// The spec.
pub fn rows(status: &NodeStatus) -> Rows<NodeAddressSpec> {
    let mut rows = Rows::at_most(TYPE.max_count);
    rows.insert(0, NODE.to_owned(), NodeAddressSpec { addresses: status.addresses.clone() });
    rows
}
