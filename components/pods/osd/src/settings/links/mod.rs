//! `Links.osbuild`: settings of links, and links that the node makes.

mod wireguard;

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{BondLink, BridgeLink, LinkSettingStatusSpec, LinkSpec, VlanLink};
use osbuild_protocol::{
    Bond, BondOptions, Bridge, LinkState, MadeLink, NetworkKind, NetworkName, NetworkSetting,
    Observed, Refusal, Setting, SettingName, Vlan, VlanProtocol, link_conflicts,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::{BTreeMap, BTreeSet};

pub const TYPE: SettingType = SettingType {
    names: names("Links", "Link"),
    columns: &[LINK, STATE, MTU, DHCP, VLAN, BRIDGE, BOND, PORT],
    status_names: names("LinkSettingStatuses", "LinkSettingStatus"),
    status_columns: &[
        LINK, STATE, MTU, DHCP, VLAN, BRIDGE, BOND, PUBLIC_KEY, PORT, SET, SET_BY, ERROR,
    ],
    // A node without DHCP, or with an MTU that its switch drops, is off the network.
    writer: Role::Admin,
    may_disconnect: true,
    read,
    write,
    subject: |settings| format!("the link `{}`", LinkSpec::of(settings).link),
    conflict,
    covers: |name| matches!(name, SettingName::Network(name) if name.kind() == NetworkKind::Link),
    statuses,
};

const LINK: PrintColumn = column("Link", "{.link}");
const STATE: PrintColumn = column("State", "{.state}");
const MTU: PrintColumn = column("MTU", "{.mtu}");
const DHCP: PrintColumn = column("DHCP", "{.dhcp}");
const VLAN: PrintColumn = column("VLAN", "{.vlan.id}");
const BRIDGE: PrintColumn = column("Bridge", "{.bridge.ports[:]}");
const BOND: PrintColumn = column("Bond", "{.bond.ports[:]}");

const PUBLIC_KEY: PrintColumn = column("Public key", "{.wireguard.publicKey}");
const PORT: PrintColumn = column("Port", "{.wireguard.listenPort}");

fn read(spec: &Spec) -> Result<Vec<Setting>, String> {
    spec::read_settings(spec, |mut message: LinkSpec| {
        wireguard::reveal(&mut message, &spec.secrets);
        message.settings().map_err(|refusal| refusal.reason)
    })
}

fn write(settings: &[Setting]) -> Spec {
    let secrets = wireguard::secrets(settings);
    Spec { secrets, ..spec::write::<LinkSpec>(settings) }
}

impl HostSpec for LinkSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let mtu = Some(self.mtu).filter(|mtu| *mtu != 0);
        let state = Some(&self.state).filter(|state| !state.is_empty());
        let state = state.map(|state| LinkState::parse(state)).transpose()?;
        let settings = NetworkSetting::of_link(&self.link, mtu, self.dhcp, state, made(self)?)?;
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
                NetworkSetting::State(_, state) => spec.state = state.to_string(),
                NetworkSetting::Made(_, MadeLink::Vlan(vlan)) => spec.vlan = Some(vlan_spec(vlan)),
                NetworkSetting::Made(_, MadeLink::Bond(bond)) => spec.bond = Some(bond_spec(bond)),
                NetworkSetting::Made(_, MadeLink::Bridge(bridge)) => {
                    spec.bridge = Some(bridge_spec(bridge));
                }
                NetworkSetting::Made(_, MadeLink::WireGuard(link)) => {
                    spec.wireguard = Some(wireguard::spec_of(link));
                }
                _ => {}
            }
        }
        spec
    }
}

/// Returns the link that the node creates for the spec, if the spec describes one.
fn made(spec: &LinkSpec) -> Result<Option<MadeLink>, Refusal> {
    let LinkSpec { link, vlan, bridge, bond, wireguard, .. } = spec;
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
    let wireguard = wireguard.as_ref().map(wireguard::made);
    let bond = bond.transpose()?;
    MadeLink::only(link, [vlan.transpose()?, bridge.transpose()?, bond, wireguard.transpose()?])
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

/// A status for each resource, with its identifier, and for each other link that a source
/// configures, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let of_resources = report.wanted.iter().map(|wanted| {
        let names: Vec<SettingName> = wanted.settings.iter().map(Setting::name).collect();
        let observed = report.observed.iter().filter(|observed| names.contains(&observed.name));
        let status = LinkSettingStatusSpec {
            set: report.is_set(wanted),
            set_by: sources(observed),
            error: report.error(wanted),
            version: wanted.version.clone(),
            ..shown(report, LinkSpec::of(&wanted.settings))
        };
        (wanted.id.clone(), status)
    });
    let mut others: BTreeMap<String, Vec<&Observed>> = BTreeMap::new();
    for observed in report.others(TYPE.covers) {
        if let SettingName::Network(
            NetworkName::Mtu(link)
            | NetworkName::Dhcp(link)
            | NetworkName::State(link)
            | NetworkName::Made(link),
        ) = &observed.name
        {
            others.entry(link.to_string()).or_default().push(observed);
        }
    }
    let others = others.into_iter().map(|(link, observed)| {
        // A tunnel is shown without its keys, and then is none that could be set.
        let current = observed.iter().filter_map(|observed| {
            Setting::parse(&format!("{} {}", observed.name, observed.current)).ok()
        });
        let current: Vec<Setting> = current.collect();
        let errors = observed.iter().map(|observed| observed.error.as_str());
        let errors: Vec<&str> = errors.filter(|error| !error.is_empty()).collect();
        let status = LinkSettingStatusSpec {
            set: errors.is_empty() && observed.iter().all(|one| !one.current.is_empty()),
            set_by: sources(observed.iter().copied()),
            error: errors.join("; "),
            ..shown(report, LinkSpec { link: link.clone(), ..LinkSpec::of(&current) })
        };
        (link, status)
    });
    let all = others.chain(of_resources);
    all.map(|(id, status)| (id, spec::both(&status))).collect()
}

/// The fields of a link, and the state of its tunnel, if it is one of WireGuard.
fn shown(report: &Report, spec: LinkSpec) -> LinkSettingStatusSpec {
    let LinkSpec { link, mtu, dhcp, vlan, bridge, bond, state, .. } = spec;
    let tunnel = report.wireguard.iter().find(|state| state.link.as_str() == link);
    let wireguard = tunnel.map(wireguard::status);
    LinkSettingStatusSpec {
        link,
        mtu,
        dhcp,
        vlan,
        bridge,
        bond,
        state,
        wireguard,
        ..LinkSettingStatusSpec::default()
    }
}

/// The sources of settings, each once.
fn sources<'a>(observed: impl Iterator<Item = &'a Observed>) -> String {
    let sources: BTreeSet<&str> =
        observed.filter_map(|observed| Some(observed.source?.name())).collect();
    sources.into_iter().collect::<Vec<_>>().join(",")
}
