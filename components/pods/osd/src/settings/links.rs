//! `Links.osbuild`: settings of links, and links that the node makes.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{BondLink, BridgeLink, LinkSettingStatusSpec, LinkSpec, VlanLink};
use osbuild_protocol::{
    Bond, BondOptions, Bridge, MadeLink, NetworkKind, NetworkSetting, Refusal, Setting,
    SettingName, Vlan, VlanProtocol, link_conflicts,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Links", "Link"),
    columns: &[LINK, MTU, DHCP, VLAN, BRIDGE, BOND],
    status_names: names("LinkSettingStatuses", "LinkSettingStatus"),
    status_columns: &[LINK, MTU, DHCP, VLAN, BRIDGE, BOND, SET, ERROR],
    // A node without DHCP, or with an MTU that its switch drops, is off the network.
    writer: Role::Admin,
    may_disconnect: true,
    read: spec::read::<LinkSpec>,
    write: spec::write::<LinkSpec>,
    subject: |settings| format!("the link `{}`", LinkSpec::of(settings).link),
    conflict,
    covers: |name| matches!(name, SettingName::Network(name) if name.kind() == NetworkKind::Link),
    statuses,
};

const LINK: PrintColumn = column("Link", "{.link}");
const MTU: PrintColumn = column("MTU", "{.mtu}");
const DHCP: PrintColumn = column("DHCP", "{.dhcp}");
const VLAN: PrintColumn = column("VLAN", "{.vlan.id}");
const BRIDGE: PrintColumn = column("Bridge", "{.bridge.ports[:]}");
const BOND: PrintColumn = column("Bond", "{.bond.ports[:]}");

impl HostSpec for LinkSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let mtu = Some(self.mtu).filter(|mtu| *mtu != 0);
        let settings = NetworkSetting::of_link(&self.link, mtu, self.dhcp, made(self)?)?;
        Ok(settings.into_iter().map(Setting::Network).collect())
    }

    fn of(settings: &[Setting]) -> Self {
        let mut spec = LinkSpec::default();
        for setting in settings {
            let Setting::Network(setting) = setting else { continue };
            spec.link = setting.link().map(ToString::to_string).unwrap_or_default();
            match setting {
                NetworkSetting::Mtu(_, mtu) => spec.mtu = mtu.bytes().into(),
                NetworkSetting::Dhcp(_, dhcp) => spec.dhcp = Some(*dhcp),
                NetworkSetting::Made(_, MadeLink::Vlan(vlan)) => spec.vlan = Some(vlan_spec(vlan)),
                NetworkSetting::Made(_, MadeLink::Bond(bond)) => spec.bond = Some(bond_spec(bond)),
                NetworkSetting::Made(_, MadeLink::Bridge(bridge)) => {
                    spec.bridge = Some(bridge_spec(bridge));
                }
                _ => {}
            }
        }
        spec
    }
}

/// Returns the VLAN, bridge or bond that the node creates for the spec, if the spec has one.
fn made(LinkSpec { link, vlan, bridge, bond, .. }: &LinkSpec) -> Result<Option<MadeLink>, Refusal> {
    let vlan = vlan
        .as_ref()
        .map(|VlanLink { id, parent, protocol }| MadeLink::vlan(*id, parent, protocol));
    let bridge = bridge.as_ref().map(|BridgeLink { ports, stp, vlan_filtering }| {
        MadeLink::bridge(ports, *stp, *vlan_filtering)
    });
    let bond = bond.as_ref().map(|bond| {
        let BondLink { mode, ports, miimon, lacp_rate, xmit_hash_policy, primary } = bond;
        let miimon = *miimon;
        let options = BondOptions { mode, miimon, lacp_rate, xmit_hash_policy, primary };
        MadeLink::bond(ports, options)
    });
    MadeLink::only(link, [vlan.transpose()?, bridge.transpose()?, bond.transpose()?])
}

fn bond_spec(bond: &Bond) -> BondLink {
    let BondOptions { mode, miimon, lacp_rate, xmit_hash_policy, primary } = bond.options();
    BondLink {
        mode: mode.to_owned(),
        ports: bond.ports().iter().map(ToString::to_string).collect(),
        miimon,
        lacp_rate: lacp_rate.to_owned(),
        xmit_hash_policy: xmit_hash_policy.to_owned(),
        primary: primary.to_owned(),
    }
}

fn bridge_spec(Bridge { ports, stp, vlan_filtering }: &Bridge) -> BridgeLink {
    let ports = ports.iter().map(ToString::to_string).collect();
    BridgeLink { ports, stp: *stp, vlan_filtering: *vlan_filtering }
}

fn vlan_spec(vlan: &Vlan) -> VlanLink {
    let protocol = match vlan.protocol() {
        VlanProtocol::Dot1Q => String::new(),
        protocol => protocol.to_string(),
    };
    VlanLink { id: vlan.id().into(), parent: vlan.parent().to_string(), protocol }
}

/// Refuses links that cannot be made together.
fn conflict(settings: &[Setting]) -> Option<String> {
    let links = settings.iter().filter_map(|setting| match setting {
        Setting::Network(setting) => Some(setting),
        _ => None,
    });
    link_conflicts(links).into_values().next()
}

/// A status for each resource, with its identifier.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let status = |wanted: &Wanted| {
        let LinkSpec { link, mtu, dhcp, vlan, bridge, bond } = LinkSpec::of(&wanted.settings);
        let (set, error) = (report.is_set(wanted), report.error(wanted));
        let version = wanted.version.clone();
        let status =
            LinkSettingStatusSpec { link, mtu, dhcp, set, error, version, vlan, bridge, bond };
        (wanted.id.clone(), spec::both(&status))
    };
    report.wanted.iter().map(status).collect()
}
