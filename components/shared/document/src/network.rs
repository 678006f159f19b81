//! Links, addresses, routes, rules for them, the firewall and NAT: `[[links]]`, `[[addresses]]`,
//! `[[routes]]`, `[[routing-rules]]`, `[[firewall-rules]]` and `[[nat]]`. Their names and values
//! are those of the specs of `osbuild.v1`.

use crate::bounded::too_many;
use osbuild_protocol::{
    BondOptions, FirewallRule, LinkName, LinkState, MAX_NETWORK_SETTINGS, MadeLink, Metric, Nat,
    NatOptions, NetworkSetting, PeerOptions, Refusal, RouteTable, RoutingRule, RoutingRuleOptions,
    RuleOptions, StaticAddress, StaticRoute, Subnet, WireGuard, WireGuardOptions, WireGuardPeer,
    firewall_conflict, link_conflicts, nat_conflict,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeSet, HashMap};
use std::mem;

/// The settings of one link, address, route or rule: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(Vec<NetworkSetting>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    link: String,
    mtu: Option<u32>,
    dhcp: Option<bool>,
    state: Option<String>,
    vlan: Option<VlanLink>,
    bridge: Option<BridgeLink>,
    bond: Option<BondLink>,
    wireguard: Option<WireguardLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VlanLink {
    id: u32,
    parent: String,
    #[serde(default)]
    protocol: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    link: String,
    address: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Route {
    destination: String,
    gateway: Option<String>,
    link: String,
    metric: Option<u32>,
    table: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Routing {
    #[serde(default)]
    family: String,
    priority: u32,
    table: u32,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    iif: String,
    #[serde(default)]
    oif: String,
    #[serde(default)]
    fwmark: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    action: String,
    priority: Option<u32>,
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    links: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct NatRule {
    name: String,
    action: String,
    #[serde(default)]
    link: String,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u32,
    #[serde(default)]
    to: String,
    to_port: Option<u32>,
}

/// A port, or a range of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a port is a number or `FIRST-LAST`")]
enum Port {
    One(u32),
    Range(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct BridgeLink {
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    stp: bool,
    #[serde(default)]
    vlan_filtering: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct BondLink {
    mode: String,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    miimon: u32,
    #[serde(default)]
    lacp_rate: String,
    #[serde(default)]
    xmit_hash_policy: String,
    #[serde(default)]
    primary: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WireguardLink {
    private_key: Option<String>,
    #[serde(default)]
    listen_port: u32,
    #[serde(default)]
    fwmark: String,
    #[serde(default)]
    peers: Vec<WireguardPeer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WireguardPeer {
    public_key: String,
    preshared_key: Option<String>,
    #[serde(default)]
    endpoint: String,
    #[serde(default)]
    allowed_ips: Vec<String>,
    #[serde(default)]
    persistent_keepalive: u32,
}

impl WireguardLink {
    fn made(&self) -> Result<MadeLink, Refusal> {
        let peer = |peer: &WireguardPeer| {
            WireGuardPeer::new(PeerOptions {
                public_key: &peer.public_key,
                preshared_key: peer.preshared_key.as_deref(),
                endpoint: &peer.endpoint,
                allowed_ips: &peer.allowed_ips,
                keepalive: peer.persistent_keepalive,
            })
        };
        let peers = self.peers.iter().map(peer).collect::<Result<_, _>>()?;
        let WireguardLink { private_key, listen_port, fwmark, .. } = self;
        let private_key = private_key.as_deref();
        let options = WireGuardOptions { private_key, listen_port: *listen_port, fwmark };
        WireGuard::new(options, peers).map(MadeLink::WireGuard)
    }
}

impl Link {
    /// The link to make that the section describes; `None` if it describes none.
    fn made(&self) -> Result<Option<MadeLink>, Refusal> {
        let vlan = self.vlan.as_ref().map(VlanLink::made).transpose()?;
        let bridge = self.bridge.as_ref().map(BridgeLink::made).transpose()?;
        let bond = self.bond.as_ref().map(BondLink::made).transpose()?;
        let wireguard = self.wireguard.as_ref().map(WireguardLink::made).transpose()?;
        MadeLink::only(&self.link, [vlan, bridge, bond, wireguard])
    }
}

impl VlanLink {
    fn made(&self) -> Result<MadeLink, Refusal> {
        MadeLink::vlan(self.id, &self.parent, &self.protocol)
    }
}

impl BridgeLink {
    fn made(&self) -> Result<MadeLink, Refusal> {
        MadeLink::bridge(&self.ports, self.stp, self.vlan_filtering)
    }
}

impl BondLink {
    fn made(&self) -> Result<MadeLink, Refusal> {
        let options = BondOptions {
            mode: &self.mode,
            miimon: self.miimon,
            lacp_rate: &self.lacp_rate,
            xmit_hash_policy: &self.xmit_hash_policy,
            primary: &self.primary,
        };
        MadeLink::bond(&self.ports, options)
    }
}

impl Settings {
    /// The settings.
    pub fn iter(&self) -> impl Iterator<Item = &NetworkSetting> {
        self.0.iter()
    }
}

impl TryFrom<Link> for Settings {
    type Error = String;

    fn try_from(link: Link) -> Result<Self, String> {
        let read = || {
            let (state, made) = (link.state.as_deref().map(LinkState::parse), link.made()?);
            NetworkSetting::of_link(&link.link, link.mtu, link.dhcp, state.transpose()?, made)
        };
        read().map(Self).map_err(|refusal| refusal.reason)
    }
}

impl TryFrom<Address> for Settings {
    type Error = String;

    fn try_from(Address { link, address }: Address) -> Result<Self, String> {
        let address = StaticAddress::parse(&link, &address).map_err(|refusal| refusal.reason)?;
        Ok(Self(vec![NetworkSetting::Address(address)]))
    }
}

impl TryFrom<Route> for Settings {
    type Error = String;

    fn try_from(route: Route) -> Result<Self, String> {
        let read = || {
            let Route { destination, gateway, link, metric, table } = &route;
            let metric = metric.map(Metric::new).transpose()?.unwrap_or_default();
            let gateway = gateway.as_deref().map(StaticRoute::gateway_of).transpose()?;
            let (destination, link) = (Subnet::parse(destination)?, LinkName::parse(link)?);
            let table = table.map(RouteTable::new).transpose()?.unwrap_or_default();
            Ok(StaticRoute::new(destination, metric, gateway, link)?.in_table(table))
        };
        let route = read().map_err(|refusal: Refusal| refusal.reason)?;
        Ok(Self(vec![NetworkSetting::Route(route)]))
    }
}

impl TryFrom<Routing> for Settings {
    type Error = String;

    fn try_from(rule: Routing) -> Result<Self, String> {
        let rule = RoutingRule::new(RoutingRuleOptions {
            family: &rule.family,
            priority: rule.priority,
            table: rule.table,
            from: &rule.from,
            to: &rule.to,
            iif: &rule.iif,
            oif: &rule.oif,
            fwmark: &rule.fwmark,
        });
        let rule = rule.map_err(|refusal| refusal.reason)?;
        Ok(Self(vec![NetworkSetting::RoutingRule(rule)]))
    }
}

impl TryFrom<Rule> for Settings {
    type Error = String;

    fn try_from(rule: Rule) -> Result<Self, String> {
        let ports = rule.ports.iter().map(|port| match port {
            Port::One(port) => port.to_string(),
            Port::Range(range) => range.clone(),
        });
        if rule.priority == Some(0) {
            return Err("the `priority` of a firewall rule is 1 to 65535".to_owned());
        }
        let rule = FirewallRule::new(RuleOptions {
            name: &rule.name,
            action: &rule.action,
            priority: rule.priority.unwrap_or_default(),
            protocol: &rule.protocol,
            ports: &ports.collect::<Vec<_>>(),
            sources: &rule.sources,
            links: &rule.links,
        });
        let rule = rule.map_err(|refusal| refusal.reason)?;
        Ok(Self(vec![NetworkSetting::FirewallRule(rule)]))
    }
}

impl TryFrom<NatRule> for Settings {
    type Error = String;

    fn try_from(rule: NatRule) -> Result<Self, String> {
        if rule.to_port == Some(0) {
            return Err("the `to-port` of a NAT rule is 1 to 65535".to_owned());
        }
        let rule = Nat::new(NatOptions {
            name: &rule.name,
            action: &rule.action,
            link: &rule.link,
            sources: &rule.sources,
            protocol: &rule.protocol,
            address: &rule.address,
            port: rule.port,
            to: &rule.to,
            to_port: rule.to_port.unwrap_or_default(),
        });
        let rule = rule.map_err(|refusal| refusal.reason)?;
        Ok(Self(vec![NetworkSetting::Nat(rule)]))
    }
}

/// Reads `[[links]]`. Those that the node makes do not exclude each other.
pub fn links<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Settings>, D::Error> {
    let links = distinct::<Link, D>(deserializer)?;
    match link_conflicts(links.iter().flat_map(Settings::iter)).into_values().next() {
        None => Ok(links),
        Some(reason) => Err(D::Error::custom(reason)),
    }
}

/// Reads `[[addresses]]`.
pub fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Settings>, D::Error> {
    distinct::<Address, D>(deserializer)
}

/// Reads `[[routes]]`.
pub fn routes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Settings>, D::Error> {
    distinct::<Route, D>(deserializer)
}

/// Reads `[[routing-rules]]`.
pub fn routing_rules<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Settings>, D::Error> {
    distinct::<Routing, D>(deserializer)
}

/// Reads `[[firewall-rules]]`. No two contradict each other.
pub fn firewall_rules<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Settings>, D::Error> {
    let rules = distinct::<Rule, D>(deserializer)?;
    match firewall_conflict(rules.iter().flat_map(Settings::iter)) {
        None => Ok(rules),
        Some(reason) => Err(D::Error::custom(reason)),
    }
}

/// Reads `[[nat]]`. No two translate the same connection to different places.
pub fn nat<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Settings>, D::Error> {
    let rules = distinct::<NatRule, D>(deserializer)?;
    match nat_conflict(rules.iter().flat_map(Settings::iter)) {
        None => Ok(rules),
        Some(reason) => Err(D::Error::custom(reason)),
    }
}

/// Reads entries of which no two are about the same.
fn distinct<'de, T, D>(deserializer: D) -> Result<Vec<Settings>, D::Error>
where
    T: Deserialize<'de>,
    Settings: TryFrom<T, Error = String>,
    D: Deserializer<'de>,
{
    let entries = Vec::<T>::deserialize(deserializer)?;
    let mut all = Vec::new();
    let mut names = BTreeSet::new();
    for entry in entries {
        let settings = Settings::try_from(entry).map_err(D::Error::custom)?;
        for name in settings.iter().map(NetworkSetting::name) {
            let twice = format!("`{name}` is set twice");
            if !names.insert(name) {
                return Err(D::Error::custom(twice));
            }
        }
        all.push(settings);
    }
    let mut counts = HashMap::new();
    for name in names {
        let count = counts.entry(mem::discriminant(&name)).or_insert(0);
        *count += 1;
        if *count > MAX_NETWORK_SETTINGS {
            return Err(D::Error::custom(too_many(MAX_NETWORK_SETTINGS, "of these")));
        }
    }
    Ok(all)
}
