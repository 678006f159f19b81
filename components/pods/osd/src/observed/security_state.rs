//! `SecurityStates.osbuild`: what the node enforces.

use super::rows::Rows;
use super::{ObservedType, slot};
use crate::settings::{NODE, column, names};
use osbuild_cosi::v1::SecurityStateSpec;
use osbuild_protocol::NodeStatus;

pub const TYPE: ObservedType = ObservedType {
    names: names("SecurityStates", "SecurityState"),
    columns: &[column("Secure Boot", "{.secureBoot}"), column("Slot", "{.slot}")],
    max_count: 1,
};

/// The spec.
pub fn rows(status: &NodeStatus) -> Rows<SecurityStateSpec> {
    let slot = slot::known(status).map(|slots| slots.running.name.clone()).unwrap_or_default();
    let mut rows = Rows::at_most(TYPE.max_count);
    let spec = SecurityStateSpec { secure_boot: status.secure_boot.clone(), slot };
    rows.insert(0, NODE.to_owned(), spec);
    rows
}
