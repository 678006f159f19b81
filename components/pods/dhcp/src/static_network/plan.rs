//! Plans the changes with which the host gets the settings of the network. It is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::made::Port;
use osbuild_protocol::{LinkName, LinkState, Mtu, NetworkSetting, StaticAddress, StaticRoute};

/// A link that this program serves, or a port of one that a setting makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLink {
    /// Its index in the kernel.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The MTU of its lease.
    pub leased_mtu: Option<u16>,
    /// The MTU that it had before that of a lease.
    pub former_mtu: Option<u32>,
    /// Whether it is on.
    pub is_up: bool,
    /// The link that carries it, if that one is off: then the kernel does not switch it on.
    pub off_parent: Option<String>,
    /// Whether this program has made it. Then [`made`](super::made) has its MTU.
    pub is_made: bool,
    /// The link of a setting of which it is a port. Then that one has the addresses.
    pub port_of: Option<Port>,
}

/// An address of any link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAddress {
    /// The index of its link.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// The length of its prefix in bits.
    pub prefix_length: u8,
    /// Whether this program has set it.
    pub is_own: bool,
    /// Whether it is the IPv4 address of a lease.
    pub is_leased: bool,
    /// Whether another machine on the link has it.
    pub is_duplicate: bool,
}

/// A route that this program has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRoute {
    /// The index of its link.
    pub index: u32,
    /// The first address of the subnet that it leads to.
    pub destination: IpAddr,
    /// The length of that subnet's prefix in bits.
    pub prefix_length: u8,
    /// Its metric.
    pub metric: u32,
    /// The number of the table that it is in.
    pub table: u32,
    /// The machine that forwards packets.
    pub gateway: Option<IpAddr>,
}

/// The links, addresses and routes of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The links that this program serves, and the ports of those that settings make.
    pub links: Vec<FoundLink>,
    /// The names of all links.
    pub names: BTreeSet<String>,
    /// The addresses of all links.
    pub addresses: Vec<FoundAddress>,
    /// The routes that this program has set.
    pub routes: Vec<FoundRoute>,
}

/// A change of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Remove a route that no setting names.
    DeleteRoute(FoundRoute),
    /// Remove an address that no setting names.
    DeleteAddress(FoundAddress),
    /// Give a link the MTU that it had before, or that of its lease.
    RestoreMtu(u32, LinkName, Mtu),
    /// Have `init` forget the MTU of a link that is gone: another of its name may have another one.
    ForgetMtu(LinkName),
    /// Have `init` remember the MTU that a link has, apart from those of leases.
    RememberMtu(LinkName, Mtu),
    /// Give the link with this index the MTU of a setting.
    SetMtu(u32, LinkName, Mtu),
    /// Give the link with this index an address.
    PutAddress(u32, StaticAddress),
    /// Set a route over the link with this index.
    PutRoute(u32, StaticRoute),
    /// Switch the link with this index on or off.
    Switch(u32, LinkName, LinkState),
}

/// The changes with which the host gets the settings; `switched_off` are the links that settings
/// have switched off so far. Their order: what goes comes first, as an address may return with
/// another prefix. An address comes before the routes that need it, and the route to a gateway
/// before those through it.
pub fn plan(
    wanted: &[NetworkSetting],
    former_mtus: &BTreeMap<LinkName, Mtu>,
    switched_off: &BTreeSet<LinkName>,
    found: &Found,
) -> Vec<Action> {
    let mut actions = removals(wanted, found);
    actions.extend(switched_off.iter().filter_map(|link| switch_on(wanted, found, link)));
    actions.extend(
        former_mtus.iter().filter_map(|(link, mtu)| restore_mtu(wanted, found, link, *mtu)),
    );
    let missing = wanted.iter().filter_map(|setting| {
        let link = match setting {
            NetworkSetting::Mtu(name, _) | NetworkSetting::State(name, _) => {
                found.link_or_port(name)?
            }
            _ => found.link(setting.link()?)?,
        };
        (!found.has(setting, link)).then_some((setting, link))
    });
    let mut puts = Vec::new();
    for (setting, link) in missing {
        match setting {
            NetworkSetting::Address(_) | NetworkSetting::Route(_) if is_off(wanted, link) => {}
            NetworkSetting::State(_, LinkState::Up) if link.off_parent.is_some() => {}
            NetworkSetting::State(name, state) => {
                puts.push(Action::Switch(link.index, name.clone(), *state));
            }
            NetworkSetting::Mtu(..) if link.is_made || link.follows_mtu() => {}
            NetworkSetting::Mtu(name, mtu) => {
                let own = Mtu::new(link.former_mtu.unwrap_or(link.mtu)).ok();
                let own = own.filter(|_| !former_mtus.contains_key(name));
                puts.extend(own.map(|own| Action::RememberMtu(name.clone(), own)));
                puts.push(Action::SetMtu(link.index, name.clone(), *mtu));
            }
            NetworkSetting::Address(address) => {
                puts.push(Action::PutAddress(link.index, address.clone()));
            }
            NetworkSetting::Route(route) => puts.push(Action::PutRoute(link.index, route.clone())),
            NetworkSetting::Dhcp(..)
            | NetworkSetting::Made(..)
            | NetworkSetting::FirewallRule(_)
            | NetworkSetting::RoutingRule(_)
            | NetworkSetting::Nat(_) => {}
        }
    }
    puts.sort_by_key(|action| match action {
        Action::PutAddress(..) => 1,
        Action::PutRoute(_, route) if route.gateway().is_none() => 2,
        Action::PutRoute(..) => 3,
        _ => 0,
    });
    actions.extend(puts);
    actions
}

/// Whether a setting switches a link off.
pub fn is_switched_off(wanted: &[NetworkSetting], link: &str) -> bool {
    wanted.iter().any(|setting| {
        matches!(setting, NetworkSetting::State(name, LinkState::Down) if name.as_str() == link)
    })
}

/// Whether a setting switches a link off, or the one that carries it is off.
fn is_off(wanted: &[NetworkSetting], link: &FoundLink) -> bool {
    link.off_parent.is_some() || is_switched_off(wanted, &link.name)
}

fn removals(wanted: &[NetworkSetting], found: &Found) -> Vec<Action> {
    let is_wanted = |index: u32, is_it: &dyn Fn(&NetworkSetting) -> bool| {
        wanted.iter().any(|setting| {
            let found = setting.link().and_then(|name| found.link(name));
            is_it(setting) && found.is_some_and(|link| link.index == index)
        })
    };
    let routes = found.routes.iter().filter(|route| {
        let is_it = |setting: &NetworkSetting| {
            matches!(setting, NetworkSetting::Route(wanted) if route.is(wanted))
        };
        !is_wanted(route.index, &is_it)
    });
    let addresses = found.addresses.iter().filter(|address| {
        let is_it = |setting: &NetworkSetting| {
            matches!(setting, NetworkSetting::Address(wanted) if address.is(wanted))
        };
        let is_of_port = || {
            let mut links = found.links.iter();
            links.any(|link| link.index == address.index && link.port_of.is_some())
        };
        // The kernel keeps those of IPv4 on a link that is off, and answers for them elsewhere.
        let is_of_link_that_is_off = || {
            let mut links = found.links.iter();
            links.any(|link| link.index == address.index && is_switched_off(wanted, &link.name))
        };
        let is_own = address.is_own
            && (is_of_link_that_is_off() || !is_wanted(address.index, &is_it));
        is_own || (address.is_leased && is_of_port())
    });
    let routes = routes.cloned().map(Action::DeleteRoute);
    routes.chain(addresses.cloned().map(Action::DeleteAddress)).collect()
}

/// A link that no setting switches off any more. One that is there again was made again, and is on.
fn switch_on(wanted: &[NetworkSetting], found: &Found, name: &LinkName) -> Option<Action> {
    let link = found.link_or_port(name).filter(|link| !link.is_up && !is_off(wanted, link))?;
    Some(Action::Switch(link.index, name.clone(), LinkState::Up))
}

/// A link whose MTU no setting names any more.
fn restore_mtu(
    wanted: &[NetworkSetting],
    found: &Found,
    link: &LinkName,
    former: Mtu,
) -> Option<Action> {
    let is_it =
        |setting: &NetworkSetting| matches!(setting, NetworkSetting::Mtu(name, _) if name == link);
    if wanted.iter().any(is_it) {
        return None;
    }
    if !found.names.contains(link.as_str()) {
        return Some(Action::ForgetMtu(link.clone()));
    }
    // A port that follows another link has its own MTU back when it is released.
    let found = found.link_or_port(link).filter(|found| !found.follows_mtu())?;
    let leased = found.leased_mtu.and_then(|mtu| Mtu::new(mtu.into()).ok());
    Some(Action::RestoreMtu(found.index, link.clone(), leased.unwrap_or(former)))
}

impl Found {
    /// The served link with this name.
    pub fn link(&self, name: &LinkName) -> Option<&FoundLink> {
        self.link_or_port(name).filter(|link| link.port_of.is_none())
    }

    /// The served link or the port with this name.
    fn link_or_port(&self, name: &LinkName) -> Option<&FoundLink> {
        self.links.iter().find(|link| link.name == name.as_str())
    }

    /// Whether the host has a setting of the link. An address that another program has set counts.
    fn has(&self, setting: &NetworkSetting, link: &FoundLink) -> bool {
        match setting {
            NetworkSetting::Mtu(_, mtu) => link.mtu == u32::from(mtu.bytes()),
            NetworkSetting::State(_, state) => link.is_up == (*state == LinkState::Up),
            NetworkSetting::Address(wanted) => self.address(wanted, link).is_some(),
            NetworkSetting::Route(wanted) => {
                self.routes.iter().any(|route| route.index == link.index && route.is(wanted))
            }
            NetworkSetting::Dhcp(..)
            | NetworkSetting::Made(..)
            | NetworkSetting::FirewallRule(_)
            | NetworkSetting::RoutingRule(_)
            | NetworkSetting::Nat(_) => true,
        }
    }

    /// Why a setting has no effect although the host has it, or cannot have it. Those of links that
    /// are made are [`made`](super::made)'s, those of firewall rules the
    /// [firewall](crate::firewall)'s, and those of routing rules [`rules`](super::rules)'.
    pub fn problem(&self, setting: &NetworkSetting, wanted: &[NetworkSetting]) -> Option<String> {
        if matches!(setting, NetworkSetting::Made(..)) {
            return None;
        }
        let name = setting.link()?;
        let Some(link) = self.link_or_port(name) else {
            return Some(format!("there is no link `{name}` that this program serves"));
        };
        match setting {
            NetworkSetting::Address(_)
            | NetworkSetting::Route(_)
            | NetworkSetting::State(_, LinkState::Up)
                if link.off_parent.is_some() =>
            {
                let parent = link.off_parent.as_deref().unwrap_or_default();
                Some(format!("the link `{parent}`, which carries `{name}`, is off"))
            }
            NetworkSetting::Address(_) | NetworkSetting::Route(_)
                if is_switched_off(wanted, &link.name) =>
            {
                Some(format!("a setting switches `{name}` off"))
            }
            NetworkSetting::Address(_) | NetworkSetting::Route(_) if link.port_of.is_some() => {
                let of = link.port_of.iter().map(|port| port.of.as_str()).collect::<String>();
                Some(format!("`{name}` is a port of `{of}`, which has the addresses"))
            }
            NetworkSetting::Mtu(..) if link.follows_mtu() => {
                let of = link.port_of.iter().map(|port| port.of.as_str()).collect::<String>();
                Some(format!("`{name}` is a port of `{of}` and has its MTU"))
            }
            NetworkSetting::Address(wanted)
                if self.address(wanted, link).is_some_and(|found| found.is_duplicate) =>
            {
                Some("another machine on the link has the address".to_owned())
            }
            _ => None,
        }
    }

    fn address(&self, wanted: &StaticAddress, link: &FoundLink) -> Option<&FoundAddress> {
        self.addresses.iter().find(|found| found.index == link.index && found.is(wanted))
    }
}

impl FoundLink {
    fn follows_mtu(&self) -> bool {
        self.port_of.as_ref().is_some_and(|port| port.follows_mtu)
    }
}

impl FoundAddress {
    fn is(&self, wanted: &StaticAddress) -> bool {
        (self.address, self.prefix_length) == (wanted.address(), wanted.prefix_length())
    }
}

impl FoundRoute {
    fn is(&self, wanted: &StaticRoute) -> bool {
        let destination = wanted.destination();
        (self.destination, self.prefix_length, self.metric, self.table, self.gateway)
            == (
                destination.address(),
                destination.prefix_length(),
                wanted.metric().number(),
                wanted.table().number(),
                wanted.gateway(),
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::Setting;

    fn settings(lines: &[&str]) -> Vec<NetworkSetting> {
        let read = |line: &&str| match Setting::parse(line) {
            Ok(Setting::Network(setting)) => setting,
            other => panic!("{line}: {other:?}"),
        };
        lines.iter().map(read).collect()
    }

    /// The plan of a host where settings have switched no link off.
    fn plan(
        wanted: &[NetworkSetting],
        former_mtus: &BTreeMap<LinkName, Mtu>,
        found: &Found,
    ) -> Vec<Action> {
        super::plan(wanted, former_mtus, &BTreeSet::new(), found)
    }

    fn found() -> Found {
        let link = FoundLink {
            index: 2,
            name: "eth0".to_owned(),
            mtu: 1500,
            leased_mtu: None,
            former_mtu: None,
            is_up: true,
            off_parent: None,
            is_made: false,
            port_of: None,
        };
        Found { names: [link.name.clone()].into(), links: vec![link], ..Found::default() }
    }

    fn address(address: &str, prefix_length: u8, is_own: bool) -> FoundAddress {
        let address = address.parse().unwrap();
        let (is_leased, is_duplicate) = (false, false);
        FoundAddress { index: 2, address, prefix_length, is_own, is_leased, is_duplicate }
    }

    fn default_route(gateway: &str) -> FoundRoute {
        FoundRoute {
            index: 2,
            destination: [0; 4].into(),
            prefix_length: 0,
            metric: 512,
            table: 254,
            gateway: Some(gateway.parse().unwrap()),
        }
    }

    fn eth0() -> LinkName {
        LinkName::parse("eth0").unwrap()
    }

    fn mtu(bytes: u32) -> Mtu {
        Mtu::new(bytes).unwrap()
    }

    const ADDRESS: &str = "address eth0 192.0.2.7 24";
    const ROUTE: &str = "route 0.0.0.0/0 512 via 192.0.2.1 on eth0";

    #[test]
    fn a_route_is_set_after_what_it_needs() {
        let wanted = settings(&[ROUTE, "route 192.0.2.1/32 512 on eth0", ADDRESS]);
        let [gateway, direct, address] = wanted.as_slice() else { panic!("there are three") };
        let (NetworkSetting::Route(gateway), NetworkSetting::Route(direct)) = (gateway, direct)
        else {
            panic!("they are routes")
        };
        let NetworkSetting::Address(address) = address else { panic!("it is an address") };
        assert_eq!(
            plan(&wanted, &BTreeMap::new(), &found()),
            [
                Action::PutAddress(2, address.clone()),
                Action::PutRoute(2, direct.clone()),
                Action::PutRoute(2, gateway.clone()),
            ]
        );
    }

    #[test]
    fn what_is_as_it_shall_be_stays() {
        let found = Found {
            addresses: vec![address("192.0.2.7", 24, true), address("10.0.0.5", 24, false)],
            routes: vec![default_route("192.0.2.1")],
            ..found()
        };
        let wanted = settings(&[ADDRESS, ROUTE, "link eth0 mtu 1500", "link eth0 dhcp off"]);
        assert_eq!(plan(&wanted, &BTreeMap::new(), &found), []);
        let leased = settings(&[ADDRESS, ROUTE, "address eth0 10.0.0.5 24"]);
        assert_eq!(plan(&leased, &BTreeMap::new(), &found), []);
    }

    #[test]
    fn only_what_this_program_has_set_is_removed() {
        let own = address("192.0.2.7", 16, true);
        let found = Found {
            addresses: vec![own.clone(), address("10.0.0.5", 24, false)],
            routes: vec![default_route("192.0.2.9")],
            ..found()
        };
        let removals =
            [Action::DeleteRoute(default_route("192.0.2.9")), Action::DeleteAddress(own)];
        assert_eq!(plan(&[], &BTreeMap::new(), &found), removals);
        let wanted = settings(&[ADDRESS, ROUTE]);
        let actions = plan(&wanted, &BTreeMap::new(), &found);
        assert_eq!(actions[..2], removals);
        assert_eq!(actions.len(), 4, "both return with their new values");
    }

    #[test]
    fn a_link_has_its_former_mtu_back_unless_its_lease_has_one() {
        let wanted = settings(&["link eth0 mtu 1400"]);
        assert_eq!(
            plan(&wanted, &BTreeMap::new(), &found()),
            [Action::RememberMtu(eth0(), mtu(1500)), Action::SetMtu(2, eth0(), mtu(1400))]
        );
        let former = BTreeMap::from([(eth0(), mtu(1500))]);
        let mut found = found();
        found.links[0].mtu = 1300;
        assert_eq!(plan(&wanted, &former, &found), [Action::SetMtu(2, eth0(), mtu(1400))]);
        assert_eq!(plan(&[], &former, &found), [Action::RestoreMtu(2, eth0(), mtu(1500))]);
        found.links[0].leased_mtu = Some(1450);
        assert_eq!(plan(&[], &former, &found), [Action::RestoreMtu(2, eth0(), mtu(1450))]);
        found.links.clear();
        assert_eq!(plan(&[], &former, &found), [], "the link is another program's now");
        found.names.clear();
        assert_eq!(plan(&[], &former, &found), [Action::ForgetMtu(eth0())], "it is gone");
        assert_eq!(plan(&wanted, &former, &found), [], "it may come back");
    }

    #[test]
    fn the_mtu_of_a_lease_is_not_remembered_as_that_of_the_link() {
        let wanted = settings(&["link eth0 mtu 9000"]);
        let mut found = found();
        let link = &mut found.links[0];
        (link.mtu, link.leased_mtu, link.former_mtu) = (1400, Some(1400), Some(1500));
        assert_eq!(
            plan(&wanted, &BTreeMap::new(), &found),
            [Action::RememberMtu(eth0(), mtu(1500)), Action::SetMtu(2, eth0(), mtu(9000))]
        );
    }

    #[test]
    fn a_link_is_switched_as_its_setting_says_and_on_without_it() {
        let switch = |state| [Action::Switch(2, eth0(), state)];
        let (down, mut off) = (settings(&["link eth0 state down"]), found());
        let (up, none) = (settings(&["link eth0 state up"]), BTreeMap::new());
        assert_eq!(plan(&down, &none, &found()), switch(LinkState::Down));
        off.links[0].is_up = false;
        assert_eq!(plan(&down, &none, &off), []);
        assert_eq!(plan(&up, &none, &off), switch(LinkState::Up));
        assert_eq!(plan(&[], &none, &off), [], "another program has switched it off");
        let ours = BTreeSet::from([eth0()]);
        assert_eq!(super::plan(&[], &none, &ours, &off), switch(LinkState::Up));
        assert_eq!(super::plan(&down, &none, &ours, &off), []);
    }

    #[test]
    fn nothing_is_set_on_a_link_that_is_switched_off() {
        let wanted = settings(&["link eth0 state down", ADDRESS, ROUTE]);
        let mut off = found();
        off.links[0].is_up = false;
        assert_eq!(plan(&wanted, &BTreeMap::new(), &off), []);
        let own = address("192.0.2.7", 24, true);
        off.addresses.push(own.clone());
        assert_eq!(plan(&wanted, &BTreeMap::new(), &off), [Action::DeleteAddress(own)]);
        let problem = Some("a setting switches `eth0` off".to_owned());
        let problems: Vec<_> = wanted.iter().map(|one| off.problem(one, &wanted)).collect();
        assert_eq!(problems, [None, problem.clone(), problem]);
    }

    #[test]
    fn nothing_is_set_on_a_link_whose_parent_is_off() {
        let wanted = settings(&["link eth0 state up", ADDRESS, ROUTE]);
        let mut off = found();
        (off.links[0].is_up, off.links[0].off_parent) = (false, Some("eth1".to_owned()));
        assert_eq!(plan(&wanted, &BTreeMap::new(), &off), []);
        let ours = BTreeSet::from([eth0()]);
        assert_eq!(super::plan(&[], &BTreeMap::new(), &ours, &off), []);
        let problem = "the link `eth1`, which carries `eth0`, is off";
        assert!(wanted.iter().all(|one| off.problem(one, &wanted).as_deref() == Some(problem)));
    }

    #[test]
    fn a_port_has_no_address_and_keeps_its_mtu() {
        let wanted = settings(&[ADDRESS, ROUTE, "link eth0 mtu 1400"]);
        let leased = FoundAddress { is_leased: true, ..address("10.0.0.5", 24, false) };
        let (own, foreign) = (address("192.0.2.7", 24, true), address("10.0.0.6", 24, false));
        let mut found = found();
        let of = LinkName::parse("br0").unwrap();
        found.links[0].port_of = Some(Port { of, follows_mtu: false });
        found.addresses = vec![leased.clone(), own.clone(), foreign];
        let former = BTreeMap::from([(eth0(), mtu(1500))]);
        assert_eq!(
            plan(&wanted, &former, &found),
            [
                Action::DeleteAddress(leased),
                Action::DeleteAddress(own),
                Action::SetMtu(2, eth0(), mtu(1400)),
            ]
        );
        let problems: Vec<_> =
            wanted.iter().filter_map(|one| found.problem(one, &wanted)).collect();
        assert_eq!(problems, ["`eth0` is a port of `br0`, which has the addresses"; 2]);
    }

    #[test]
    fn a_setting_of_a_link_that_is_not_served_has_a_problem() {
        let wanted = settings(&["address cni0 192.0.2.7 24", ADDRESS]);
        let duplicate = FoundAddress { is_duplicate: true, ..address("192.0.2.7", 24, true) };
        let found = Found { addresses: vec![duplicate], ..found() };
        assert_eq!(plan(&wanted, &BTreeMap::new(), &found), []);
        let problems: Vec<_> =
            wanted.iter().filter_map(|one| found.problem(one, &wanted)).collect();
        assert_eq!(
            problems,
            [
                "there is no link `cni0` that this program serves",
                "another machine on the link has the address"
            ]
        );
    }
}
