//! Merges the settings of all leases and routers, and sends them to `init`, which alone can set a
//! host name or write resolv.conf.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use osbuild_protocol::{Client, ClientError, Refusal, RefusalCode, Request};

use crate::dhcpv6::terms::Terms as Terms6;
use crate::netlink::Address;
use crate::terms::Terms;

/// How long to wait for `init`, which is busy at boot but never for long.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of name servers that a resolver (resolv.conf(5)) and `init` accept.
const MAX_NAME_SERVERS: usize = 3;
/// The maximum number of search domains that a resolver accepts.
const MAX_DOMAINS: usize = 6;
/// The maximum number of time servers to use.
const MAX_TIME_SERVERS: usize = 4;
/// The maximum number of a link's addresses that `init` accepts.
pub const MAX_ADDRESSES: usize = 8;

/// The lease, the addresses and the advertised options of one link.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Its name.
    pub link: &'a str,
    /// The terms of its lease, if it has one.
    pub terms: Option<&'a Terms>,
    /// The leased address that an earlier client has left on it, until a server confirms it.
    pub left: Option<Address>,
    /// The terms of a server of DHCPv6, if one has given some.
    pub terms6: Option<&'a Terms6>,
    /// The IPv4 addresses that it has of settings, each `ADDRESS/PREFIX-LENGTH`.
    pub addresses4: &'a [String],
    /// Its IPv6 addresses with their prefix lengths.
    pub addresses6: &'a [(Ipv6Addr, u8)],
    /// The name servers that routers have advertised on it.
    pub name_servers6: Vec<&'a Ipv6Addr>,
    /// The search domains that they have.
    pub search6: Vec<&'a String>,
}

/// The requests to `init` for all links together. The first link has precedence, and names the
/// node. A setting that no lease or router has stays as it is.
pub fn requests(links: &[Facts]) -> Vec<Request> {
    let mut requests: Vec<Request> =
        links.iter().map(|facts| Request::RouterAdvertisements(facts.link.to_owned())).collect();
    requests.extend(links.iter().map(addresses));
    let terms = || links.iter().filter_map(|facts| facts.terms);
    if let Some(name) = terms().find_map(|terms| terms.host_name.as_ref()) {
        requests.push(Request::HostName(name.clone()));
    }
    let servers = name_servers(links);
    if !servers.is_empty() {
        let leased = terms().flat_map(|terms| &terms.search);
        let leased6 = terms6(links).flat_map(|terms| &terms.search);
        let advertised = links.iter().flat_map(|facts| facts.search6.iter().copied());
        let search = distinct(leased.chain(leased6).chain(advertised).cloned(), MAX_DOMAINS);
        requests.push(Request::Resolver { servers, search });
    }
    let servers = terms().flat_map(|terms| &terms.ntp_servers).map(|server| IpAddr::from(*server));
    let servers6 = terms6(links).flat_map(|terms| &terms.ntp_servers);
    let servers = servers.chain(servers6.map(|server| IpAddr::from(*server)));
    let servers = distinct(servers, MAX_TIME_SERVERS);
    if !servers.is_empty() {
        requests.push(Request::TimeServers(servers));
    }
    requests
}

/// The terms of servers of DHCPv6.
fn terms6<'a>(links: &'a [Facts]) -> impl Iterator<Item = &'a Terms6> {
    links.iter().filter_map(|facts| facts.terms6)
}

/// The request for a link's addresses, which may be none.
fn addresses(facts: &Facts) -> Request {
    let leased = facts.terms.map(|terms| (terms.address, terms.prefix_length));
    let leased = leased.or(facts.left.map(|left| (left.address, left.prefix_length)));
    let leased = leased.map(|(address, prefix_length)| format!("{address}/{prefix_length}"));
    let advertised = facts
        .addresses6
        .iter()
        .map(|(address, prefix_length)| format!("{address}/{prefix_length}"));
    let leased = leased.into_iter().filter(|leased| !facts.addresses4.contains(leased));
    let addresses = facts.addresses4.iter().cloned().chain(leased).chain(advertised);
    let addresses = addresses.take(MAX_ADDRESSES).collect();
    Request::Addresses { addresses, link: facts.link.to_owned() }
}

/// The name servers of all links: those of DHCPv4 first, but at least one of IPv6, if there is one.
/// A resolver uses three, and one of the two protocols may fail.
fn name_servers(links: &[Facts]) -> Vec<IpAddr> {
    let leased = links.iter().filter_map(|facts| facts.terms).flat_map(|terms| &terms.name_servers);
    let leased = distinct(leased.map(|server| IpAddr::from(*server)), MAX_NAME_SERVERS);
    let leased6 = terms6(links).flat_map(|terms| &terms.name_servers);
    let advertised = links.iter().flat_map(|facts| facts.name_servers6.iter().copied());
    let of_ipv6 = leased6.chain(advertised).map(|server| IpAddr::from(*server));
    let of_ipv6 = distinct(of_ipv6, MAX_NAME_SERVERS);
    let kept = leased.len().min(MAX_NAME_SERVERS - of_ipv6.len().min(1));
    distinct(leased.into_iter().take(kept).chain(of_ipv6), MAX_NAME_SERVERS)
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>, max: usize) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if distinct.len() < max && !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// The requests that `init` has taken, or refused for good.
#[derive(Debug, Default)]
pub struct Sent {
    requests: Vec<Request>,
    /// Those that `init` could not carry out so far, which it gets again.
    postponed: Vec<Request>,
    /// The links of which `init` may know addresses.
    addressed: BTreeSet<String>,
}

impl Sent {
    /// Nothing was sent yet. An earlier process may have reported addresses of these links, which
    /// have gone since.
    pub fn new(links: impl Iterator<Item = String>) -> Self {
        Self { addressed: links.collect(), ..Self::default() }
    }

    /// Sends the requests that `init` has neither taken nor refused for good. Returns whether it
    /// has done one of both with all of them now. `report` gets a line for each request that was
    /// accepted or refused.
    pub fn bring_up_to(
        &mut self,
        requests: &[Request],
        socket: &Path,
        report: impl FnMut(String),
    ) -> bool {
        let requests: Vec<Request> = requests.iter().cloned().chain(self.gone(requests)).collect();
        self.requests.retain(|request| requests.contains(request));
        self.postponed.retain(|request| requests.contains(request));
        self.send(&requests, socket, report)
    }

    /// The same for these requests, which may be some of all.
    pub fn send(
        &mut self,
        requests: &[Request],
        socket: &Path,
        mut report: impl FnMut(String),
    ) -> bool {
        let mut are_done = true;
        for request in requests {
            if self.requests.contains(request) || self.is_needless(request) {
                continue;
            }
            let sent = Client::connect(socket, TIMEOUT).and_then(|mut init| init.send(request));
            match sent {
                Ok(()) => report(format!("init took `{}`", request.shown())),
                Err(ClientError::Connection(_)) => return false,
                Err(ClientError::Refused(refusal)) if may_pass(&refusal) => {
                    are_done = false;
                    if !self.postponed.contains(request) {
                        report(format!("init refused `{}`: {refusal}", request.shown()));
                        self.postponed.push(request.clone());
                    }
                    continue;
                }
                Err(refused) => report(format!("init refused `{}`: {refused}", request.shown())),
            }
            if let Request::Addresses { addresses, link } = request {
                match addresses.is_empty() {
                    true => self.addressed.remove(link),
                    false => self.addressed.insert(link.clone()),
                };
            }
            self.requests.push(request.clone());
            self.postponed.retain(|postponed| postponed != request);
        }
        are_done
    }

    /// Forgets what was reported about settings of the network: `init` has other ones now, and no
    /// reports about those.
    pub fn forget_network(&mut self) {
        self.requests.retain(|request| {
            !matches!(
                request,
                Request::NetworkSet(_) | Request::NetworkFailed { .. } | Request::WireGuard(_)
            )
        });
    }

    /// Forgets that `init` has had the kernel accept router advertisements on a link, because its
    /// settings of IPv6 are those of a new one.
    pub fn forget_adverts(&mut self, link: &str) {
        self.requests.retain(
            |request| !matches!(request, Request::RouterAdvertisements(name) if name == link),
        );
    }

    /// The reports that links have no address any more which are not among the requests.
    fn gone(&self, requests: &[Request]) -> impl Iterator<Item = Request> {
        let is_there = |gone: &&String| {
            requests
                .iter()
                .any(|request| matches!(request, Request::Addresses { link, .. } if link == *gone))
        };
        let gone = self.addressed.iter().filter(|link| !is_there(link));
        let gone: Vec<String> = gone.cloned().collect();
        gone.into_iter().map(|link| Request::Addresses { addresses: Vec::new(), link })
    }

    /// Whether the request reports that a link has no address, and `init` knows of none.
    fn is_needless(&self, request: &Request) -> bool {
        matches!(request, Request::Addresses { addresses, link }
            if addresses.is_empty() && !self.addressed.contains(link))
    }
}

/// Whether `init` may take the same request later: its disk has too much to do, or a file could not
/// be written.
fn may_pass(refusal: &Refusal) -> bool {
    matches!(refusal.code, RefusalCode::Busy | RefusalCode::Failed)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::Ipv4Addr;
    use std::path::PathBuf;
    use std::slice;

    use super::*;

    fn terms(host: u8) -> Terms {
        Terms {
            address: Ipv4Addr::new(10, 0, 0, host),
            prefix_length: 24,
            server: Ipv4Addr::new(10, 0, 0, 1),
            lifetimes: None,
            routes: vec![],
            mtu: None,
            name_servers: vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, host)],
            search: vec!["example".to_owned(), format!("{host}.example")],
            ntp_servers: vec![Ipv4Addr::new(10, 0, 0, 1)],
            host_name: Some(format!("node{host}")),
        }
    }

    fn leased<'a>(link: &'a str, terms: &'a Terms) -> Facts<'a> {
        Facts {
            link,
            terms: Some(terms),
            left: None,
            terms6: None,
            addresses4: &[],
            addresses6: &[],
            name_servers6: vec![],
            search6: vec![],
        }
    }

    /// The requests as lines.
    fn lines(links: &[Facts]) -> Vec<String> {
        requests(links).iter().map(Request::to_string).collect()
    }

    #[test]
    fn two_leases_are_one_set_of_requests() {
        assert_eq!(
            lines(&[leased("eth0", &terms(5)), leased("eth1", &terms(6))]),
            [
                "router-advertisements on eth0",
                "router-advertisements on eth1",
                "address 10.0.0.5/24 on eth0",
                "address 10.0.0.6/24 on eth1",
                "hostname node5",
                "resolv 10.0.0.1 10.0.0.5 10.0.0.6 search example 5.example 6.example",
                "ntp 10.0.0.1",
            ]
        );
    }

    #[test]
    fn a_setting_that_no_lease_has_is_left_alone() {
        let terms = Terms {
            name_servers: vec![],
            search: vec![],
            ntp_servers: vec![],
            host_name: None,
            ..terms(5)
        };
        assert_eq!(
            lines(&[leased("eth0", &terms)]),
            ["router-advertisements on eth0", "address 10.0.0.5/24 on eth0"]
        );
    }

    #[test]
    fn no_request_has_more_servers_than_init_takes() {
        let many: Vec<Ipv4Addr> = (1..30).map(|host| Ipv4Addr::new(10, 0, 1, host)).collect();
        let terms =
            Terms { name_servers: many.clone(), ntp_servers: many, host_name: None, ..terms(5) };
        let lines = lines(&[leased("eth0", &terms)]);
        assert_eq!(lines[2], "resolv 10.0.1.1 10.0.1.2 10.0.1.3 search example 5.example");
        assert_eq!(lines[3], "ntp 10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4");
    }

    #[test]
    fn a_link_with_routers_alone_has_addresses_and_name_servers_too() {
        let (server, domain) = ("fec0::3".parse().unwrap(), "example".to_owned());
        let addresses6 = [("fec0::5".parse().unwrap(), 64), ("2001:db8::5".parse().unwrap(), 64)];
        let facts = Facts {
            link: "eth0",
            terms: None,
            left: None,
            terms6: None,
            addresses4: &[],
            addresses6: &addresses6,
            name_servers6: vec![&server],
            search6: vec![&domain],
        };
        assert_eq!(
            lines(&[facts]),
            [
                "router-advertisements on eth0",
                "address fec0::5/64 2001:db8::5/64 on eth0",
                "resolv fec0::3 search example"
            ]
        );
    }

    #[test]
    fn an_advertised_name_server_has_a_place_beside_three_leased_ones() {
        let many = (1..5).map(|host| Ipv4Addr::new(10, 0, 1, host)).collect();
        let terms = Terms { name_servers: many, search: vec!["example".to_owned()], ..terms(5) };
        let (servers, domain) =
            (["fec0::3".parse().unwrap(), "fec0::4".parse().unwrap()], "other.example".to_owned());
        let facts = Facts {
            name_servers6: servers.iter().collect(),
            search6: vec![&domain],
            ..leased("eth0", &terms)
        };
        let lines = lines(&[facts]);
        assert!(
            lines.contains(
                &"resolv 10.0.1.1 10.0.1.2 fec0::3 search example other.example".to_owned()
            ),
            "{lines:?}"
        );
    }

    #[test]
    fn a_static_address_is_reported_before_a_leased_one_and_once() {
        let (static_address, terms) = (["192.0.2.7/24".to_owned()], terms(5));
        let facts = Facts { addresses4: &static_address, ..leased("eth0", &terms) };
        assert_eq!(addresses(&facts), addresses_of(&["192.0.2.7/24", "10.0.0.5/24"]));
        let same = ["10.0.0.5/24".to_owned()];
        let facts = Facts { addresses4: &same, ..leased("eth0", &terms) };
        assert_eq!(addresses(&facts), addresses_of(&["10.0.0.5/24"]));
    }

    #[test]
    fn an_address_of_an_earlier_client_is_reported_until_there_is_a_lease() {
        let (address, terms) = (Ipv4Addr::new(10, 0, 0, 9), terms(5));
        let left = Some(Address { address, prefix_length: 24, is_leased: true });
        let facts = Facts { left, ..leased("eth0", &terms) };
        assert_eq!(addresses(&facts), addresses_of(&["10.0.0.5/24"]));
        let facts = Facts { terms: None, ..facts };
        assert_eq!(addresses(&facts), addresses_of(&["10.0.0.9/24"]));
    }

    fn addresses_of(addresses: &[&str]) -> Request {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        Request::Addresses { addresses, link: "eth0".to_owned() }
    }

    /// The socket of an `init` that takes each request.
    fn obliging_init(name: &str) -> PathBuf {
        init(name, &["ok\n"])
    }

    /// The socket of an `init` with these replies, of which the last one is that to all further
    /// requests.
    fn init(name: &str, replies: &'static [&str]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dhcp-{name}-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                let reply = replies[number.min(replies.len() - 1)];
                stream.write_all(reply.as_bytes()).unwrap();
            }
        });
        path
    }

    #[test]
    fn a_link_without_an_address_is_reported_only_after_it_had_one() {
        let path = obliging_init("sent");
        let mut sent = Sent::default();
        let mut send = |addresses: &[&str]| {
            let mut reports = vec![];
            let requests = [addresses_of(addresses)];
            assert!(sent.bring_up_to(&requests, &path, |report| reports.push(report)));
            reports.len()
        };
        assert_eq!(send(&[]), 0);
        assert_eq!(send(&["fec0::5/64"]), 1);
        assert_eq!(send(&[]), 1);
        assert_eq!(send(&[]), 0, "once");
        assert_eq!(send(&["fec0::5/64"]), 1);
        let mut reports = vec![];
        for _ in 0..2 {
            assert!(sent.bring_up_to(&[], &path, |report| reports.push(report)));
        }
        assert_eq!(reports, ["init took `address on eth0`"], "the link is gone");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_request_that_init_cannot_carry_out_now_is_repeated_and_one_that_it_never_takes_is_not() {
        let path = init(
            "busy",
            &[
                "error: too many jobs wait [code=4]\n",
                "error: no host name [code=2]\n",
                "error: too many jobs wait [code=4]\n",
                "ok\n",
            ],
        );
        let (mut sent, mut reports) = (Sent::default(), vec![]);
        let requests = [addresses_of(&["10.0.0.5/24"]), Request::HostName("a b".to_owned())];
        let mut ended = Vec::new();
        for _ in 0..4 {
            ended.push(sent.bring_up_to(&requests, &path, |report| reports.push(report)));
        }
        assert_eq!(ended, [false, false, true, true]);
        let begins = ["init refused `address", "init refused `hostname", "init took `address"];
        assert_eq!(reports.len(), begins.len(), "{reports:?}");
        assert!(reports.iter().zip(begins).all(|(line, start)| line.starts_with(start)));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_link_from_before_the_start_is_reported_once_without_an_address() {
        let path = obliging_init("start");
        let mut sent = Sent::new(["eth0", "eth1"].map(str::to_owned).into_iter());
        let mut reports = vec![];
        for _ in 0..2 {
            let requests = [addresses_of(&[])];
            assert!(sent.bring_up_to(&requests, &path, |report| reports.push(report)));
        }
        // The second link is a port now, perhaps, which has no requests.
        assert_eq!(reports, ["init took `address on eth0`", "init took `address on eth1`"]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn requests_that_are_sent_first_leave_the_others_as_they_are() {
        let path = obliging_init("first");
        let mut sent = Sent::default();
        let [first, other] = ["eth0", "eth1"].map(|link| Request::HostName(link.to_owned()));
        let mut reports = vec![];
        assert!(sent.bring_up_to(slice::from_ref(&other), &path, |report| reports.push(report)));
        assert!(sent.send(slice::from_ref(&first), &path, |report| reports.push(report)));
        assert!(sent.bring_up_to(&[first, other], &path, |report| reports.push(report)));
        assert_eq!(reports, ["init took `hostname eth1`", "init took `hostname eth0`"]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn without_init_a_request_is_kept_for_later() {
        let mut sent = Sent::default();
        let requests = [Request::HostName("node".to_owned())];
        let socket = Path::new("/nonexistent/socket");
        assert!(!sent.bring_up_to(&requests, socket, |line| panic!("{line}")));
        assert!(sent.requests.is_empty());
    }
}
