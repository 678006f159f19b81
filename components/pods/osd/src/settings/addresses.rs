//! `Addresses.osbuild`: static addresses of links.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{AddressSettingStatusSpec, AddressSpec};
use osbuild_protocol::{
    NetworkKind, NetworkName, NetworkSetting, Refusal, Setting, SettingName, StaticAddress,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Addresses", "Address"),
    columns: &[LINK, ADDRESS],
    status_names: names("AddressSettingStatuses", "AddressSettingStatus"),
    status_columns: &[LINK, ADDRESS, SET, SET_BY, ERROR],
    // A client that sets an address can take over another machine's address and its connections.
    writer: Role::Admin,
    may_disconnect: true,
    read: spec::read::<AddressSpec>,
    write: spec::write::<AddressSpec>,
    subject: |settings| spec::subject(settings),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::Network(one) if one.kind() == NetworkKind::Address),
    statuses,
};

const LINK: PrintColumn = column("Link", "{.link}");
const ADDRESS: PrintColumn = column("Address", "{.address}");

impl HostSpec for AddressSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let address = StaticAddress::parse(&self.link, &self.address)?;
        Ok(vec![Setting::Network(NetworkSetting::Address(address))])
    }

    fn of(settings: &[Setting]) -> Self {
        let address = settings.iter().find_map(|setting| match setting {
            Setting::Network(NetworkSetting::Address(address)) => Some(AddressSpec {
                link: address.link().to_string(),
                address: address.with_length(),
            }),
            _ => None,
        });
        address.unwrap_or_default()
    }
}

/// A status for each resource, with its identifier, and for each other address, with its link and
/// itself.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, |name| {
        let SettingName::Network(NetworkName::Address(link, address)) = name else { return None };
        let (link, address) = (link.to_string(), address.to_string());
        Some((format!("{link}/{address}"), AddressSpec { link, address }))
    });
    all.into_iter().map(|(id, found)| (id, spec::both(&shown(found)))).collect()
}

fn shown(found: Registered<AddressSpec>) -> AddressSettingStatusSpec {
    let Registered { spec, set, set_by, error, version, .. } = found;
    let AddressSpec { link, address } = spec;
    AddressSettingStatusSpec { link, address, set, set_by, error, version }
}
