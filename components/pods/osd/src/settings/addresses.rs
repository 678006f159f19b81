//! `Addresses.osbuild`: static addresses of links.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{AddressSettingStatusSpec, AddressSpec};
use osbuild_protocol::{NetworkKind, NetworkSetting, Refusal, Setting, SettingName, StaticAddress};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Addresses", "Address"),
    columns: &[LINK, ADDRESS],
    status_names: names("AddressSettingStatuses", "AddressSettingStatus"),
    status_columns: &[LINK, ADDRESS, SET, ERROR],
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

/// A status for each resource, with its identifier.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let status = |wanted: &Wanted| {
        let AddressSpec { link, address } = AddressSpec::of(&wanted.settings);
        let (set, error) = (report.is_set(wanted), report.error(wanted));
        let version = wanted.version.clone();
        let status = AddressSettingStatusSpec { link, address, set, error, version };
        (wanted.id.clone(), spec::both(&status))
    };
    report.wanted.iter().map(status).collect()
}
