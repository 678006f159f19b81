//! The `dhcp` pod: gets and keeps an IPv4 address for every Ethernet device of the node, makes the
//! kernel accept router advertisements there, asks for what they leave to DHCPv6, makes the links
//! and sets the addresses, routes, firewall rules and NAT rules that `init` asks for, and reports
//! the results to `init`.
//!
//! `dhcp [--link PATTERN]… [--except PATTERN]… [--open-metadata] [--socket PATH]`: `--link` serves
//! only links with such names, `--except` excludes such names; `*` matches any characters. With
//! `--open-metadata` pods reach the metadata of a cloud. `--socket` is the socket of `init`. The
//! program logs events on stderr, one per line, and runs until a signal. It needs `NET_ADMIN` and
//! `NET_RAW`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use osbuild_abi::paths;
use osbuild_protocol::Request;
use pod_dhcp::choice::Choice;
use pod_dhcp::link::{LinkClient, LinkSettings, now};
use pod_dhcp::link_kind::LinkKind;
use pod_dhcp::netlink::{Heard, Link, LinkMonitor, Netlink};
use pod_dhcp::settings;
use pod_dhcp::static_network::{HostLink, HostLinks, StaticNetwork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

/// The wait before a retry of `init`, which may not listen yet.
const INIT_RETRY: Duration = Duration::from_secs(1);
const USAGE: &str = "usage: dhcp [--link PATTERN]... [--except PATTERN]... [--open-metadata]
            [--socket PATH]";

fn main() -> ExitCode {
    let Some(arguments) = arguments(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match exit_on_signals().and_then(|()| ServedLinks::new(arguments)).and_then(ServedLinks::run) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes SIGTERM and SIGINT end the process, which the kernel does not do for PID 1 of a container.
/// The leases stay: pods that stop later still need the network, and each address keeps its
/// lifetime.
fn exit_on_signals() -> io::Result<()> {
    static ALWAYS: AtomicBool = AtomicBool::new(true);
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, &ALWAYS)?;
    }
    Ok(())
}

struct Arguments {
    choice: Choice,
    /// Whether pods reach the metadata of a cloud.
    opens_metadata: bool,
    socket: PathBuf,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        choice: Choice::default(),
        opens_metadata: false,
        socket: paths::NET_SOCKET.into(),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--link" => arguments.choice.links.push(words.next()?),
            "--except" => arguments.choice.except.push(words.next()?),
            "--open-metadata" => arguments.opens_metadata = true,
            "--socket" => arguments.socket = words.next()?.into(),
            _ => return None,
        }
    }
    Some(arguments)
}

/// The node's links that the program serves, and their shared state.
struct ServedLinks {
    arguments: Arguments,
    netlink: Netlink,
    monitor: LinkMonitor,
    clients: BTreeMap<u32, LinkClient>,
    static_network: StaticNetwork,
    sent: settings::Sent,
    /// When to retry `init`.
    init_retry: Option<Duration>,
}

impl ServedLinks {
    fn new(arguments: Arguments) -> io::Result<Self> {
        let Arguments { socket, opens_metadata, .. } = &arguments;
        let static_network = StaticNetwork::start(socket, *opens_metadata, now())?;
        let (monitor, mut netlink) = (LinkMonitor::open()?, Netlink::open()?);
        let is_own = |link: &Link| link.is_made || arguments.choice.is_of_node(link);
        let own = netlink.links()?.into_iter().filter(is_own);
        Ok(Self {
            sent: settings::Sent::new(own.map(|link| link.name)),
            arguments,
            static_network,
            monitor,
            netlink,
            clients: BTreeMap::new(),
            init_retry: None,
        })
    }

    fn run(mut self) -> io::Result<std::convert::Infallible> {
        self.follow_settings()?;
        self.look_at_links()?;
        loop {
            for client in self.clients.values_mut() {
                if client.deadline().is_some_and(|deadline| deadline <= now()) {
                    client.tick(&mut self.netlink);
                }
            }
            if self.static_network.deadline().is_some_and(|deadline| deadline <= now()) {
                self.hold_settings()?;
            }
            if self.static_network.tables_deadline().is_some_and(|deadline| deadline <= now()) {
                self.static_network.hold_tables(now());
            }
            self.send_to_init();
            let (mut links_changed, readable) = self.wait()?;
            // They may name links that are served from now on, or no longer.
            links_changed |= self.follow_settings()?;
            self.static_network.take_changes(now());
            if links_changed {
                let Heard { adverts, duplicates } = self.monitor.read();
                for (index, adverts) in adverts {
                    if let Some(client) = self.clients.get_mut(&index) {
                        client.take_adverts(adverts);
                    }
                }
                for (index, address) in duplicates {
                    if let Some(client) = self.clients.get_mut(&index) {
                        client.take_duplicate(address, &mut self.netlink);
                    }
                }
                self.look_at_links()?;
            }
            for index in readable {
                if let Some(client) = self.clients.get_mut(&index) {
                    client.receive(&mut self.netlink);
                }
            }
        }
    }

    /// Whether a link is served: of those that this program has made, each that a setting makes.
    fn serves(&self, link: &Link) -> bool {
        match link.is_made {
            // Nobody answers to DHCP there, and a peer is no router.
            _ if link.kind == LinkKind::WireGuard => false,
            true => self.static_network.makes(&link.name),
            false => self.arguments.choice.serves(link),
        }
    }

    /// Lists the links: switches on and serves new ones, and drops those that are gone or replaced.
    fn look_at_links(&mut self) -> io::Result<()> {
        let links = self.netlink.links()?;
        let ports = self.static_network.ports(&links);
        let made: Vec<u32> =
            links.iter().filter(|link| link.is_made).map(|link| link.index).collect();
        let is_port = |link: &Link| {
            ports.contains(&link.name) || link.master.is_some_and(|one| made.contains(&one))
        };
        let served = links.iter().filter(|link| self.serves(link) && !is_port(link));
        let served: Vec<Link> = served.cloned().collect();
        for client in self.clients.values_mut() {
            if ports.contains(&client.link().name) {
                client.stop(&mut self.netlink);
            }
        }
        self.clients.retain(|index, client| {
            served.iter().any(|link| link.index == *index && link.mac == client.link().mac)
        });
        let mut new = Vec::new();
        for link in served.iter().filter(|link| !self.clients.contains_key(&link.index)) {
            let mut client = LinkClient::new(link, &mut self.netlink)?;
            client.follow(link_settings(&self.static_network, &link.name), &mut self.netlink);
            // One of its name may have been there before.
            self.sent.forget_adverts(&link.name);
            new.push((link, client));
        }
        let is_off = |link: &&Link| !link.up && !self.static_network.switches_off(&link.name);
        let off: Vec<&Link> = new.iter().map(|(link, _)| *link).filter(is_off).collect();
        self.clients.extend(new.into_iter().map(|(link, client)| (link.index, client)));
        if !off.is_empty() {
            // The kernel solicits routers when a link is set up, but only if it already accepts
            // advertisements there: `init` must enable that first. What else it gets has to wait
            // for a look at each link.
            self.send_adverts();
        }
        for link in off {
            if let Err(error) = self.netlink.switch_on(link.index) {
                eprintln!("{}: cannot be switched on: {error}", link.name);
            }
        }
        for link in &served {
            if let Some(client) = self.clients.get_mut(&link.index) {
                if link.regains_ipv6(client.link()) {
                    self.sent.forget_adverts(&link.name);
                }
                client.look_at(link, &mut self.netlink);
            }
        }
        Ok(())
    }

    /// Takes new settings from `init`. Returns whether there are any.
    fn follow_settings(&mut self) -> io::Result<bool> {
        let are_new = self.static_network.take_settings(now());
        if are_new {
            self.sent.forget_network();
            self.tell_clients();
            let links = self.host_links()?;
            self.static_network.make_links(&links, &mut self.netlink);
        }
        Ok(are_new)
    }

    /// The links of the host.
    fn host_links(&mut self) -> io::Result<HostLinks> {
        let (names, links): (BTreeSet<_>, Vec<_>) = self.netlink.named_links()?.into_iter().unzip();
        let links = links.into_iter().flatten().map(|link| {
            let client = self.clients.get(&link.index);
            HostLink {
                is_of_node: self.arguments.choice.is_of_node(&link),
                is_served: client.is_some() || self.static_network.holds_tunnel(&link),
                leased_mtu: client.and_then(LinkClient::leased_mtu),
                former_mtu: client.and_then(LinkClient::former_mtu),
                link,
            }
        });
        Ok(HostLinks { links: links.collect(), names })
    }

    /// Tells the clients what settings say about their links.
    fn tell_clients(&mut self) {
        for client in self.clients.values_mut() {
            let settings = link_settings(&self.static_network, &client.link().name);
            client.follow(settings, &mut self.netlink);
        }
    }

    /// Has the host follow the settings.
    fn hold_settings(&mut self) -> io::Result<()> {
        let (links, socket) = (self.host_links()?, &self.arguments.socket);
        self.static_network.hold(&links, &mut self.netlink, socket, now());
        self.tell_clients();
        Ok(())
    }

    /// Has `init` have the kernel accept router advertisements. If it cannot be reached, it gets
    /// this with the other requests.
    fn send_adverts(&mut self) {
        let names = self.clients.values().map(|client| client.link().name.clone());
        let requests: Vec<_> = names.map(Request::RouterAdvertisements).collect();
        self.sent.send(&requests, &self.arguments.socket, |report| eprintln!("{report}"));
    }

    fn send_to_init(&mut self) {
        let links: Vec<_> = self.clients.values().map(LinkClient::facts).collect();
        let mut requests = settings::requests(&links);
        requests.extend(self.static_network.requests());
        let socket = &self.arguments.socket;
        let done = self.sent.bring_up_to(&requests, socket, |report| eprintln!("{report}"));
        self.init_retry = (!done).then(|| now() + INIT_RETRY);
    }

    /// Waits for the next event. Returns whether links have changed, and the links whose clients
    /// have messages to read.
    fn wait(&self) -> io::Result<(bool, Vec<u32>)> {
        let deadlines = self.clients.values().filter_map(LinkClient::deadline);
        let of_settings = [self.static_network.deadline(), self.static_network.tables_deadline()];
        let deadlines = deadlines.chain(of_settings.into_iter().flatten());
        let deadline = deadlines.chain(self.init_retry).min();
        let timeout = deadline.map(|deadline| timespec(deadline.saturating_sub(now())));
        let sockets = self
            .clients
            .iter()
            .flat_map(|(index, client)| client.sockets().map(|socket| (*index, socket)));
        let (indices, sockets): (Vec<_>, Vec<_>) = sockets.unzip();
        let of_settings = self.static_network.descriptors().into_iter();
        let mut fds = vec![PollFd::new(&self.monitor, PollFlags::IN)];
        fds.extend(of_settings.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let others = fds.len();
        fds.extend(
            sockets.into_iter().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)),
        );
        match poll(&mut fds, timeout.as_ref()) {
            // EINTR: the process was stopped and continued.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (monitor, sockets) = (&fds[0], &fds[others..]);
        let readable = indices.into_iter().zip(sockets).filter(|(_, fd)| !fd.revents().is_empty());
        Ok((!monitor.revents().is_empty(), readable.map(|(index, _)| index).collect()))
    }
}

fn link_settings(settings: &StaticNetwork, link: &str) -> LinkSettings {
    let dhcp = settings.allows_dhcp(link) && !settings.switches_off(link);
    let mtu = settings.sets_mtu(link);
    let former_mtu = settings.former_mtu(link);
    LinkSettings { dhcp, mtu, former_mtu, addresses4: settings.addresses4(link) }
}

fn timespec(span: Duration) -> Timespec {
    // A span beyond the clock's range becomes the longest one.
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}
