//! `Nats.osbuild`: rules that translate addresses in packets that the node forwards.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{NatSpec, NatStatusSpec};
use osbuild_protocol::{
    Nat, NatOptions, NetworkKind, NetworkName, NetworkSetting, Refusal, Setting, SettingName,
    Translation, nat_conflict,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Nats", "Nat"),
    columns: &[NAME, ACTION, LINK, SOURCES, PROTOCOL, ADDRESS, PORT, TO, TO_PORT],
    status_names: names("NatStatuses", "NatStatus"),
    status_columns: &[
        NAME, ACTION, LINK, SOURCES, PROTOCOL, ADDRESS, PORT, TO, TO_PORT, SET, SET_BY, ERROR,
    ],
    // A rule leads connections to the node elsewhere.
    writer: Role::Admin,
    may_disconnect: true,
    read: spec::read::<NatSpec>,
    write: spec::write::<NatSpec>,
    subject: |settings| format!("the NAT rule `{}`", NatSpec::of(settings).name),
    conflict: |settings| {
        nat_conflict(settings.iter().filter_map(|setting| match setting {
            Setting::Network(setting) => Some(setting),
            _ => None,
        }))
    },
    covers: is_nat,
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");
const ACTION: PrintColumn = column("Action", "{.action}");
const LINK: PrintColumn = column("Link", "{.link}");
const SOURCES: PrintColumn = column("Sources", "{.sources[:]}");
const PROTOCOL: PrintColumn = column("Protocol", "{.protocol}");
const ADDRESS: PrintColumn = column("Address", "{.address}");
const PORT: PrintColumn = column("Port", "{.port}");
const TO: PrintColumn = column("To", "{.to}");
const TO_PORT: PrintColumn = column("To port", "{.toPort}");

impl HostSpec for NatSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let rule = Nat::new(NatOptions {
            name: &self.name,
            action: &self.action,
            link: &self.link,
            sources: &self.sources,
            protocol: &self.protocol,
            address: &self.address,
            port: self.port,
            to: &self.to,
            to_port: self.to_port,
        })?;
        Ok(vec![Setting::Network(NetworkSetting::Nat(rule))])
    }

    fn of(settings: &[Setting]) -> Self {
        let rule = settings.iter().find_map(|setting| match setting {
            Setting::Network(NetworkSetting::Nat(rule)) => Some(rule),
            _ => None,
        });
        let Some(rule) = rule else { return Self::default() };
        fn text(value: Option<impl ToString>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        let spec = NatSpec {
            name: rule.name().to_string(),
            action: rule.action().to_owned(),
            link: text(rule.link()),
            sources: rule.sources().iter().map(ToString::to_string).collect(),
            to: text(rule.to()),
            ..NatSpec::default()
        };
        match rule.translation() {
            Translation::Masquerade(_) | Translation::Source(..) => spec,
            Translation::Destination(forwarding) => NatSpec {
                protocol: forwarding.protocol.to_string(),
                address: text(forwarding.address),
                port: forwarding.port.into(),
                to_port: forwarding.to_port.into(),
                ..spec
            },
        }
    }
}

fn is_nat(name: &SettingName) -> bool {
    matches!(name, SettingName::Network(name) if name.kind() == NetworkKind::Nat)
}

/// A status for each resource, with its identifier, and for each other rule, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, |name| {
        let SettingName::Network(NetworkName::Nat(name)) = name else { return None };
        let name = name.to_string();
        Some((name.clone(), NatSpec { name, ..NatSpec::default() }))
    });
    all.into_iter().map(|(id, found)| (id, spec::both(&shown(found)))).collect()
}

fn shown(found: Registered<NatSpec>) -> NatStatusSpec {
    let Registered { spec, set, set_by, error, version, .. } = found;
    let NatSpec { name, action, link, sources, protocol, address, port, to, to_port } = spec;
    NatStatusSpec {
        name,
        action,
        link,
        sources,
        protocol,
        address,
        port,
        to,
        to_port,
        set,
        set_by,
        error,
        version,
    }
}
