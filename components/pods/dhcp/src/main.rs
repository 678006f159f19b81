//! The `dhcp` pod: gets and keeps an IPv4 address for every Ethernet device of the node, makes the
//! kernel accept router advertisements there, and reports the results of both to `init`.
//!
//! `dhcp [--link PATTERN]… [--except PATTERN]… [--socket PATH]`: `--link` serves only links with
//! such names, `--except` excludes such names; `*` matches any characters. `--socket` is the socket
//! of `init`. The program logs events on stderr, one per line, and runs until a signal. It needs
//! `NET_ADMIN` and `NET_RAW`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use osbuild_abi::paths;
use pod_dhcp::choice::Choice;
use pod_dhcp::link::{LinkClient, now};
use pod_dhcp::netlink::{Link, LinkMonitor, Netlink};
use pod_dhcp::settings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

/// The wait before a retry of `init`, which may not listen yet.
const INIT_RETRY: Duration = Duration::from_secs(1);
const USAGE: &str = "usage: dhcp [--link PATTERN]... [--except PATTERN]... [--socket PATH]";

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
    socket: PathBuf,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { choice: Choice::default(), socket: paths::NET_SOCKET.into() };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--link" => arguments.choice.links.push(words.next()?),
            "--except" => arguments.choice.except.push(words.next()?),
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
    sent: settings::Sent,
    /// When to retry `init`.
    init_retry: Option<Duration>,
}

impl ServedLinks {
    fn new(arguments: Arguments) -> io::Result<Self> {
        Ok(Self {
            arguments,
            monitor: LinkMonitor::open()?,
            netlink: Netlink::open()?,
            clients: BTreeMap::new(),
            sent: settings::Sent::default(),
            init_retry: None,
        })
    }

    fn run(mut self) -> io::Result<std::convert::Infallible> {
        self.look_at_links()?;
        loop {
            for client in self.clients.values_mut() {
                if client.deadline().is_some_and(|deadline| deadline <= now()) {
                    client.tick(&mut self.netlink);
                }
            }
            self.send_to_init();
            let (links_changed, readable) = self.wait()?;
            if links_changed {
                for (index, adverts) in self.monitor.read() {
                    if let Some(client) = self.clients.get_mut(&index) {
                        client.take_adverts(adverts);
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

    /// Lists the links: switches on and serves new ones, and drops those that are gone or replaced.
    fn look_at_links(&mut self) -> io::Result<()> {
        let served: Vec<Link> = self
            .netlink
            .links()?
            .into_iter()
            .filter(|link| self.arguments.choice.serves(link))
            .collect();
        self.clients.retain(|index, client| {
            served.iter().any(|link| link.index == *index && link.mac == client.link().mac)
        });
        let mut new = Vec::new();
        for link in served.iter().filter(|link| !self.clients.contains_key(&link.index)) {
            new.push((link, LinkClient::new(link, &mut self.netlink)?));
        }
        let off: Vec<&Link> = new.iter().map(|(link, _)| *link).filter(|link| !link.up).collect();
        self.clients.extend(new.into_iter().map(|(link, client)| (link.index, client)));
        if !off.is_empty() {
            // The kernel solicits routers when a link is set up, but only if it already accepts
            // advertisements there: `init` must enable that first.
            self.send_to_init();
        }
        for link in off {
            if let Err(error) = self.netlink.switch_on(link.index) {
                eprintln!("{}: cannot be switched on: {error}", link.name);
            }
        }
        for link in &served {
            if let Some(client) = self.clients.get_mut(&link.index) {
                client.look_at(link, &mut self.netlink);
            }
        }
        Ok(())
    }

    fn send_to_init(&mut self) {
        let links: Vec<_> = self.clients.values().map(LinkClient::facts).collect();
        let requests = settings::requests(&links);
        let socket = &self.arguments.socket;
        let done = self.sent.bring_up_to(&requests, socket, |report| eprintln!("{report}"));
        self.init_retry = (!done).then(|| now() + INIT_RETRY);
    }

    /// Waits for the next event. Returns whether links have changed, and the links whose clients
    /// have messages to read.
    fn wait(&self) -> io::Result<(bool, Vec<u32>)> {
        let deadlines = self.clients.values().filter_map(LinkClient::deadline);
        let deadline = deadlines.chain(self.init_retry).min();
        let timeout = deadline.map(|deadline| timespec(deadline.saturating_sub(now())));
        let sockets =
            self.clients.iter().filter_map(|(index, client)| Some((*index, client.socket()?)));
        let (indices, sockets): (Vec<_>, Vec<_>) = sockets.unzip();
        let mut fds = vec![PollFd::new(&self.monitor, PollFlags::IN)];
        fds.extend(
            sockets.into_iter().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)),
        );
        match poll(&mut fds, timeout.as_ref()) {
            // EINTR: the process was stopped and continued.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (monitor, sockets) = (&fds[0], &fds[1..]);
        let readable = indices.into_iter().zip(sockets).filter(|(_, fd)| !fd.revents().is_empty());
        Ok((!monitor.revents().is_empty(), readable.map(|(index, _)| index).collect()))
    }
}

fn timespec(span: Duration) -> Timespec {
    // A span beyond the clock's range becomes the longest one.
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}
