//! `SecurityStates.osbuild`: what the node enforces.

use super::rows::Rows;
use super::{ObservedType, slot};
use crate::settings::{NODE, column, names};
use osbuild_cosi::v1::SecurityStateSpec;
use osbuild_protocol::{Fingerprint, NodeStatus, Security};

pub const TYPE: ObservedType = ObservedType {
    names: names("SecurityStates", "SecurityState"),
    columns: &[
        column("Secure Boot", "{.secureBoot}"),
        column("Lockdown", "{.lockdown}"),
        column("Slot", "{.slot}"),
        column("Epoch", "{.securityEpoch}"),
    ],
    max_count: 1,
};

/// The spec.
pub fn rows(status: &NodeStatus) -> Rows<SecurityStateSpec> {
    let slot = slot::known(status).map(|slots| slots.running.name.clone()).unwrap_or_default();
    let mut rows = Rows::at_most(TYPE.max_count);
    let Security { secure_boot, lockdown, epoch, certificates, api } = status.security.clone();
    let spec = SecurityStateSpec {
        secure_boot,
        slot,
        lockdown,
        security_epoch: epoch,
        firmware_certificates: certificates.iter().map(Fingerprint::to_string).collect(),
        api_certificate: api.map_or_else(String::new, |api| api.to_string()),
    };
    rows.insert(0, NODE.to_owned(), spec);
    rows
}
