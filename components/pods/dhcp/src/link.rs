//! One link and its client: carries out the actions of the state machine.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

use crate::advertised::Advertised;
use crate::dhcpv6::Need;
use crate::dhcpv6::link::LinkClient6;
use crate::lease::{Action, Client, Event};
use crate::message::{Kind, Message};
use crate::netlink::{Address, Address6, Link, MainRoute, Netlink};
use crate::router::Advert;
use crate::settings::Facts;
use crate::socket::{self, LinkSocket};
use crate::terms::{Route, Terms};

/// The time since boot, in which leases are measured.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // The clock starts at zero, so neither number is negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(crate) fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without the flag, the call would wait for the kernel's entropy, which takes seconds at boot.
    // These numbers protect no secret; predictable ones would only make clients less polite.
    let _ = getrandom(&mut bytes, GetRandomFlags::INSECURE);
    u32::from_ne_bytes(bytes)
}

/// The client of one link, with its sockets and its configuration.
pub struct LinkClient {
    link: Link,
    client: Client,
    /// Open while an answer is expected.
    socket: Option<LinkSocket>,
    /// The address that this client has set on the link.
    configured: Option<Address>,
    /// The leased address that an earlier client has left on the link, until this one has set or
    /// removed one, or the kernel has at the end of its lifetime.
    left: Option<Address>,
    /// The routes of the lease to subnets that had a route with its metric once it was configured:
    /// this one, or one of another program or a setting in its place. It is put back once there is
    /// none. One that the kernel has refused is not among them, so that it is not tried for each
    /// change.
    routes: Vec<Route>,
    /// The MTU that the link had before that of a lease. A client that starts again knows it only
    /// if a setting was over it.
    former_mtu: Option<u32>,
    /// The options that routers have advertised.
    advertised: Advertised,
    dhcpv6: LinkClient6,
    /// The IPv6 addresses of the link at the last look.
    addresses6: Vec<(Ipv6Addr, u8)>,
    settings: LinkSettings,
}

/// The effect of `init`'s settings on the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// Whether DHCP may configure it.
    pub dhcp: bool,
    /// Whether its MTU is that of a setting, so that a lease leaves it alone.
    pub mtu: bool,
    /// The MTU that it had before that of a setting, until it has it back.
    pub former_mtu: Option<u32>,
    /// Its IPv4 addresses, each `ADDRESS/PREFIX-LENGTH`.
    pub addresses4: Vec<String>,
}

impl LinkClient {
    /// Makes a client for a link. It takes over the address that an earlier client has left.
    pub fn new(link: &Link, netlink: &mut Netlink) -> io::Result<Self> {
        let left = netlink.addresses(link.index)?.into_iter().find(|address| address.is_leased);
        let link = Link { carrier: false, dhcpv6: Need::Nothing, ..link.clone() };
        Ok(Self {
            client: Client::new(link.mac, left.map(|address| address.address)),
            socket: None,
            configured: None,
            left,
            routes: Vec::new(),
            former_mtu: None,
            advertised: Advertised::default(),
            dhcpv6: LinkClient6::new(&link),
            addresses6: Vec::new(),
            settings: LinkSettings { dhcp: true, ..LinkSettings::default() },
            link,
        })
    }

    /// The link at the last look.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The facts about the link for `init`.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            link: &self.link.name,
            terms: self.client.terms(),
            left: self.left,
            terms6: self.dhcpv6.terms(),
            addresses4: &self.settings.addresses4,
            addresses6: &self.addresses6,
            name_servers6: self.advertised.name_servers().collect(),
            search6: self.advertised.search().collect(),
        }
    }

    /// The MTU of its lease.
    pub fn leased_mtu(&self) -> Option<u16> {
        self.client.terms().and_then(|terms| terms.mtu)
    }

    /// The MTU that the link had before that of a lease.
    pub fn former_mtu(&self) -> Option<u32> {
        self.former_mtu
    }

    /// Follows the settings of the link.
    pub fn follow(&mut self, settings: LinkSettings, netlink: &mut Netlink) {
        let before = std::mem::replace(&mut self.settings, settings);
        match (before.dhcp, self.settings.dhcp) {
            (true, false) => self.stop(netlink),
            (false, true) if self.link.carrier => {
                self.handle(Event::CarrierUp, netlink);
                self.dhcpv6.start(netlink);
            }
            _ => {}
        }
        if before.mtu && !self.settings.mtu {
            // A lease may have begun or ended while the setting was over its MTU.
            self.configure_mtu(self.leased_mtu().map(u32::from), netlink);
        }
    }

    /// Removes what DHCP has set on the link, which another one is about to take over.
    pub fn stop(&mut self, netlink: &mut Netlink) {
        self.handle(Event::Stop, netlink);
        self.configure_mtu(None, netlink);
        self.dhcpv6.stop(netlink);
    }

    /// When [`LinkClient::tick`] is due, on the clock of [`now`].
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [self.client.deadline(), self.advertised.deadline()];
        deadlines.into_iter().flatten().chain(self.dhcpv6.deadline()).min()
    }

    /// The sockets to poll, while an answer is expected.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd).into_iter().chain(self.dhcpv6.socket())
    }

    /// Handles a change of the link.
    pub fn look_at(&mut self, link: &Link, netlink: &mut Netlink) {
        let before = std::mem::replace(&mut self.link, link.clone());
        let addresses6 = netlink.addresses6(link.index);
        if let Ok(addresses) = &addresses6 {
            // Those that were there before the carrier are no answer to its solicitation.
            self.note_addresses6(addresses);
        }
        match (before.carrier, link.carrier) {
            (false, true) => {
                self.log("has carrier");
                self.advertised.carrier_up(now());
                if self.settings.dhcp {
                    self.handle(Event::CarrierUp, netlink);
                }
            }
            (true, false) => {
                self.log("has lost its carrier");
                self.advertised.carrier_lost();
                self.handle(Event::CarrierLost, netlink);
            }
            (true, true) if link.regains_ipv6(&before) => self.advertised.carrier_up(now()),
            _ => {}
        }
        if let Err(error) = self.look_for_lease(netlink) {
            self.log(&format!("cannot list its IPv4 addresses and routes: {error}"));
        }
        match addresses6 {
            Ok(addresses) => {
                self.dhcpv6.look_at(link, self.settings.dhcp, &addresses, netlink);
            }
            Err(error) => self.log(&format!("cannot list its IPv6 addresses: {error}")),
        }
    }

    /// Looks whether the link still has its lease. Another program may have removed a part of it,
    /// and the kernel removes the routes from a link that is switched off.
    fn look_for_lease(&mut self, netlink: &mut Netlink) -> io::Result<()> {
        let ours = self.configured.filter(|_| self.link.carrier);
        if ours.is_none() && self.left.is_none() {
            return Ok(());
        }
        let addresses = netlink.addresses(self.link.index)?;
        self.left = self.left.filter(|left| addresses.contains(left));
        let Some(ours) = ours else { return Ok(()) };
        let found = netlink.routes(self.link.index)?;
        let has_address = addresses.iter().any(|address| address.is(&ours));
        if !has_address || self.routes.iter().any(|route| !is_taken(route, &found)) {
            self.handle(Event::Gone, netlink);
        }
        Ok(())
    }

    fn note_addresses6(&mut self, addresses: &[Address6]) {
        let usable = addresses.iter().filter(|address| address.is_usable());
        let addresses: Vec<(Ipv6Addr, u8)> =
            usable.map(|address| (address.address, address.prefix_length)).collect();
        for (address, prefix_length) in
            addresses.iter().filter(|address| !self.addresses6.contains(address))
        {
            self.log(&format!("has {address}/{prefix_length}"));
            self.advertised.answered();
        }
        self.addresses6 = addresses;
    }

    /// The kernel has removed an IPv6 address, as another host has it.
    pub fn take_duplicate(&mut self, address: Ipv6Addr, netlink: &mut Netlink) {
        self.dhcpv6.take_duplicate(address, netlink);
    }

    /// Handles a router's advertisement on this link.
    pub fn take_adverts(&mut self, adverts: Vec<Advert>) {
        self.advertised.answered();
        self.advertised.update(adverts, now());
    }

    /// Does everything that is due.
    pub fn tick(&mut self, netlink: &mut Netlink) {
        self.handle(Event::Tick, netlink);
        self.dhcpv6.tick(netlink);
        if self.advertised.tick(now()) {
            match socket::solicit(&self.link.name, self.link.index) {
                Ok(()) => self.log("solicits routers"),
                // EADDRNOTAVAIL: duplicate address detection is still running. The link is
                // solicited again soon.
                Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {}
                Err(error) => self.log(&format!("cannot solicit routers: {error}")),
            }
        }
    }

    /// Reads all messages in the sockets.
    pub fn receive(&mut self, netlink: &mut Netlink) {
        self.dhcpv6.receive(netlink);
        while let Some(socket) = &self.socket {
            match socket.receive() {
                Ok(Some(message)) => self.handle(Event::Message(&message), netlink),
                Ok(None) => return,
                Err(error) => {
                    // The link is going down or away, which the monitor reports; a new question
                    // opens a new socket.
                    self.log(&format!("cannot receive: {error}"));
                    self.socket = None;
                }
            }
        }
    }

    fn handle(&mut self, event: Event, netlink: &mut Netlink) {
        for action in self.client.handle(event, now(), random()) {
            if let Err(error) = self.carry_out(action, netlink) {
                self.log(&error.to_string());
            }
        }
        if !self.client.listens() {
            self.socket = None;
        }
    }

    fn carry_out(&mut self, action: Action, netlink: &mut Netlink) -> io::Result<()> {
        match action {
            Action::Broadcast(from, message) => {
                self.log(&question(&message));
                let sent = self.listen().and_then(|socket| socket.broadcast(from, &message));
                sent.map_err(|error| failed("cannot broadcast", error))
            }
            Action::Unicast(from, to, message) => {
                self.log(&format!("asks {to} to extend the lease of {from}"));
                let sent = self
                    .listen()
                    .map(drop)
                    .and_then(|()| socket::unicast(&self.link.name, from, to, &message));
                sent.map_err(|error| failed("cannot send to the server", error))
            }
            Action::Apply(terms, left) => self.configure(&terms, left, netlink),
            Action::Remove(reason) => {
                self.log(&format!("loses its address: {reason}"));
                self.remove_addresses(None, netlink)
            }
            Action::Note(note) => {
                self.log(&note);
                Ok(())
            }
        }
    }

    fn listen(&mut self) -> io::Result<&LinkSocket> {
        Ok(match self.socket.take() {
            Some(socket) => self.socket.insert(socket),
            None => self.socket.insert(LinkSocket::open(self.link.index)?),
        })
    }

    /// Sets the address on the link, then everything that depends on it. A failure is logged, and
    /// the rest is still tried.
    fn configure(
        &mut self,
        terms: &Terms,
        left: Option<Duration>,
        netlink: &mut Netlink,
    ) -> io::Result<()> {
        let address =
            Address { address: terms.address, prefix_length: terms.prefix_length, is_leased: true };
        let span = shown_span(left);
        self.log(&format!(
            "has {}/{} from {} for {span}",
            terms.address, terms.prefix_length, terms.server
        ));
        // The old address goes first: if it were the first of its subnet, the kernel would remove
        // the new one with it.
        self.remove_addresses(Some(&address), netlink)?;
        // An address that cannot be set is not missed later: each report would be a reason to try
        // again.
        self.configured = None;
        let all = netlink.addresses(self.link.index)?;
        // The kernel would give the lifetime to a static address.
        if !all.iter().any(|found| found.is(&address) && !found.is_leased) {
            let put = netlink.put_address(self.link.index, &address, left);
            put.map_err(|error| failed("cannot set the address", error))?;
        }
        self.configured = Some(address);
        self.configure_mtu(terms.mtu.map(u32::from), netlink);
        let outcome = self.configure_routes(terms, netlink);
        let found = netlink.routes(self.link.index)?;
        let taken = terms.routes.iter().filter(|route| is_taken(route, &found));
        self.routes = taken.copied().collect();
        outcome
    }

    /// Gives the link the MTU of its lease, or the one from before if the lease has none. A link
    /// whose lease ends keeps it for the next lease: the links of some drivers fail for a moment
    /// when their MTU changes.
    fn configure_mtu(&mut self, leased: Option<u32>, netlink: &mut Netlink) {
        if self.settings.mtu {
            return;
        }
        let mtu = match leased {
            Some(mtu) => {
                let current = Some(self.link.mtu).filter(|current| *current != mtu);
                // The link may still have the MTU of a setting that is gone. `init` remembers the
                // one before that for longer than this program runs.
                self.former_mtu = self.settings.former_mtu.or(self.former_mtu).or(current);
                Some(mtu)
            }
            None => self.former_mtu.take().or(self.settings.former_mtu),
        };
        if let Some(mtu) = mtu
            && let Err(error) = netlink.set_mtu(self.link.index, mtu)
        {
            self.log(&format!("cannot set the MTU to {mtu}: {error}"));
        }
    }

    /// Removes leased addresses except `kept`, also those of an earlier client.
    fn remove_addresses(
        &mut self,
        kept: Option<&Address>,
        netlink: &mut Netlink,
    ) -> io::Result<()> {
        for address in netlink.addresses(self.link.index)? {
            if !address.is_leased || kept.is_some_and(|kept| kept.is(&address)) {
                continue;
            }
            let deleted = netlink.delete_address(self.link.index, &address);
            deleted.map_err(|error| {
                failed(&format!("cannot remove the address {}", address.address), error)
            })?;
        }
        self.configured = self.configured.filter(|ours| kept.is_some_and(|kept| kept.is(ours)));
        self.left = None;
        Ok(())
    }

    fn configure_routes(&mut self, terms: &Terms, netlink: &mut Netlink) -> io::Result<()> {
        let index = self.link.index;
        let (leased, others): (Vec<_>, Vec<_>) =
            netlink.routes(index)?.into_iter().partition(|found| found.is_leased);
        let old = leased.iter().map(|found| &found.route);
        for route in old.filter(|route| !terms.routes.contains(route)) {
            netlink
                .delete_route(index, route)
                .map_err(|error| failed(&format!("cannot remove {}", shown(route)), error))?;
        }
        for route in &terms.routes {
            // The kernel would replace it, and the setting that it may be of would replace this
            // one, without end.
            if is_taken(route, &others) {
                self.log(&format!("leaves out {}: another one has its metric", shown(route)));
                continue;
            }
            let beyond = route.gateway.is_some_and(|gateway| !within(gateway, terms));
            match netlink.put_route(index, route, terms.address, beyond) {
                Ok(()) => self.log(&format!("has {}", shown(route))),
                Err(error) => self.log(&format!("cannot set {}: {error}", shown(route))),
            }
        }
        Ok(())
    }

    fn log(&self, text: &str) {
        eprintln!("{}: {text}", self.link.name);
    }
}

pub(crate) fn failed(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The rest of a lease in words.
pub(crate) fn shown_span(left: Option<Duration>) -> String {
    left.map_or_else(|| "unlimited time".to_owned(), |left| format!("{:.0} s", left.as_secs_f64()))
}

fn question(message: &Message) -> String {
    match message.kind() {
        Some(Kind::Discover) => "seeks a server".to_owned(),
        _ => format!("requests its address (transaction {:08x})", message.xid),
    }
}

fn shown(route: &Route) -> String {
    let to = format!("the route to {}/{}", route.destination, route.prefix_length);
    route.gateway.map_or_else(|| to.clone(), |gateway| format!("{to} via {gateway}"))
}

/// Whether a route of a lease, or one in its place, is among those with its metric.
fn is_taken(route: &Route, found: &[MainRoute]) -> bool {
    found.iter().any(|other| other.route.leads_to_same(route))
}

/// Whether an address is in the subnet of the lease.
fn within(address: Ipv4Addr, terms: &Terms) -> bool {
    let host_bits = 32 - u32::from(terms.prefix_length);
    let subnet = |address: Ipv4Addr| u32::from(address).checked_shr(host_bits).unwrap_or(0);
    subnet(address) == subnet(terms.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_length_sets_the_subnet() {
        let terms = |prefix_length| Terms {
            address: Ipv4Addr::new(10, 0, 0, 9),
            prefix_length,
            server: Ipv4Addr::new(10, 0, 0, 1),
            lifetimes: None,
            routes: vec![],
            mtu: None,
            name_servers: vec![],
            search: vec![],
            ntp_servers: vec![],
            host_name: None,
        };
        assert!(within(Ipv4Addr::new(10, 0, 0, 1), &terms(24)));
        assert!(!within(Ipv4Addr::new(10, 0, 1, 1), &terms(24)));
        assert!(!within(Ipv4Addr::new(10, 0, 0, 1), &terms(32)));
    }
}
