//! `Links.osbuild`: settings of links.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{LinkSettingStatusSpec, LinkSpec};
use osbuild_protocol::{NetworkKind, NetworkSetting, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Links", "Link"),
    columns: &[LINK, MTU, DHCP],
    status_names: names("LinkSettingStatuses", "LinkSettingStatus"),
    status_columns: &[LINK, MTU, DHCP, SET, ERROR],
    // A node without DHCP, or with an MTU that its switch drops, is off the network.
    writer: Role::Admin,
    read: spec::read::<LinkSpec>,
    write: spec::write::<LinkSpec>,
    subject: |settings| format!("the link `{}`", LinkSpec::of(settings).link),
    covers: |name| matches!(name, SettingName::Network(name) if name.kind() == NetworkKind::Link),
    statuses,
};

const LINK: PrintColumn = column("Link", "{.link}");
const MTU: PrintColumn = column("MTU", "{.mtu}");
const DHCP: PrintColumn = column("DHCP", "{.dhcp}");

impl HostSpec for LinkSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let mtu = Some(self.mtu).filter(|mtu| *mtu != 0);
        let settings = NetworkSetting::of_link(&self.link, mtu, self.dhcp)?;
        Ok(settings.into_iter().map(Setting::Network).collect())
    }

    fn of(settings: &[Setting]) -> Self {
        let mut spec = LinkSpec::default();
        for setting in settings {
            let Setting::Network(setting) = setting else { continue };
            spec.link = setting.link().to_string();
            match setting {
                NetworkSetting::Mtu(_, mtu) => spec.mtu = mtu.bytes().into(),
                NetworkSetting::Dhcp(_, dhcp) => spec.dhcp = Some(*dhcp),
                _ => {}
            }
        }
        spec
    }
}

/// A status for each resource, with its identifier.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let status = |wanted: &Wanted| {
        let LinkSpec { link, mtu, dhcp } = LinkSpec::of(&wanted.settings);
        let (set, error) = (report.is_set(wanted), report.error(wanted));
        let version = wanted.version.clone();
        let status = LinkSettingStatusSpec { link, mtu, dhcp, set, error, version };
        (wanted.id.clone(), spec::both(&status))
    };
    report.wanted.iter().map(status).collect()
}
