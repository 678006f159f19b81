//! What leases and routers say about the whole node, and how `init` is told: it alone can set a
//! host name or write resolv.conf.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::sockets::{self, net};

use crate::terms::Terms;

/// How long `init` may take for an answer: it has a hundred other things to do at boot, but none
/// takes long.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many name servers a resolver reads (resolv.conf(5)), and so how many `init` takes.
const MAX_NAME_SERVERS: usize = 3;
/// How many domains it reads.
const MAX_DOMAINS: usize = 6;
/// How many time servers are worth asking.
const MAX_TIME_SERVERS: usize = 4;

/// How many addresses of a link `init` takes.
const MAX_ADDRESSES: usize = 8;

/// What is known of one link.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Its name.
    pub link: &'a str,
    /// The terms of its lease, if it has one.
    pub terms: Option<&'a Terms>,
    /// Its IPv6 addresses with their prefix lengths.
    pub addresses6: &'a [(Ipv6Addr, u8)],
    /// The name servers that routers have advertised on it.
    pub name_servers6: Vec<&'a Ipv6Addr>,
    /// The search domains that they have.
    pub search6: Vec<&'a String>,
}

/// The lines that `init` is to be told of all links together: the first link comes first, and names
/// the node. What nobody speaks of is left as it is.
pub fn lines(links: &[Facts]) -> Vec<String> {
    let mut lines: Vec<String> = links
        .iter()
        .map(|facts| format!("{} on {}", net::ROUTER_ADVERTISEMENTS, facts.link))
        .collect();
    lines.extend(links.iter().map(addresses));
    let terms = || links.iter().filter_map(|facts| facts.terms);
    if let Some(name) = terms().find_map(|terms| terms.host_name.as_ref()) {
        lines.push(format!("{} {name}", net::HOSTNAME));
    }
    let name_servers = name_servers(links);
    if !name_servers.is_empty() {
        let leased = terms().flat_map(|terms| &terms.search);
        let advertised = links.iter().flat_map(|facts| facts.search6.iter().copied());
        lines.push(resolv(&name_servers, &distinct(leased.chain(advertised), MAX_DOMAINS)));
    }
    let ntp_servers = distinct(terms().flat_map(|terms| &terms.ntp_servers), MAX_TIME_SERVERS);
    if !ntp_servers.is_empty() {
        lines.push(words(net::NTP, &ntp_servers));
    }
    lines
}

/// The line about the addresses of a link, of which it may have none.
fn addresses(facts: &Facts) -> String {
    let leased = facts.terms.map(|terms| format!("{}/{}", terms.address, terms.prefix_length));
    let advertised = facts
        .addresses6
        .iter()
        .map(|(address, prefix_length)| format!("{address}/{prefix_length}"));
    let addresses: Vec<_> = leased.into_iter().chain(advertised).take(MAX_ADDRESSES).collect();
    format!("{} on {}", words(net::ADDRESS, &addresses), facts.link)
}

/// The name servers of all links: those of leases first, but at least one that a router has
/// advertised, if there is any: a resolver reads three, and a node may lose one of the two
/// protocols.
fn name_servers(links: &[Facts]) -> Vec<IpAddr> {
    let leased = links.iter().filter_map(|facts| facts.terms).flat_map(|terms| &terms.name_servers);
    let leased = distinct(leased.map(|server| IpAddr::from(*server)), MAX_NAME_SERVERS);
    let advertised = links.iter().flat_map(|facts| &facts.name_servers6);
    let advertised = distinct(advertised.map(|server| IpAddr::from(**server)), MAX_NAME_SERVERS);
    let kept = leased.len().min(MAX_NAME_SERVERS - advertised.len().min(1));
    distinct(leased.into_iter().take(kept).chain(advertised), MAX_NAME_SERVERS)
}

fn resolv(name_servers: &[IpAddr], domains: &[&String]) -> String {
    let line = words(net::RESOLV, name_servers);
    if domains.is_empty() { line } else { format!("{line} {}", words(net::SEARCH, domains)) }
}

fn words(verb: &str, words: &[impl ToString]) -> String {
    let words = words.iter().map(ToString::to_string);
    std::iter::once(verb.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if distinct.len() < most && !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// Tells `init` one line. An error is either that of the connection, or `init`'s own, of the kind
/// `Other`.
pub fn tell(socket: &Path, line: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match answer.trim_end() {
        sockets::OK => Ok(()),
        "" => Err(io::ErrorKind::UnexpectedEof.into()),
        other => {
            Err(io::Error::other(other.strip_prefix(sockets::ERROR).unwrap_or(other).to_owned()))
        }
    }
}

/// What `init` has been told, and what it has still to be.
#[derive(Debug, Default)]
pub struct Told {
    lines: Vec<String>,
    /// The links of which it knows addresses, or has known some.
    addressed: BTreeSet<String>,
}

impl Told {
    /// Tells `init` those of the lines that it does not know yet. Returns whether it knows all of
    /// them now, so that nothing has to be tried again; `report` hears of each line that it took or
    /// refused. A line that it refuses is not repeated: it would refuse again.
    pub fn bring_up_to(
        &mut self,
        lines: &[String],
        socket: &Path,
        mut report: impl FnMut(String),
    ) -> bool {
        self.lines.retain(|line| lines.contains(line));
        for line in lines {
            if self.lines.contains(line)
                || (is_without_address(line) && !self.addressed.contains(line_end(line)))
            {
                continue;
            }
            match tell(socket, line) {
                Ok(()) => report(format!("init took `{line}`")),
                Err(error) if error.kind() == io::ErrorKind::Other => {
                    report(format!("init refused `{line}`: {error}"))
                }
                Err(_) => return false,
            }
            if line.starts_with(net::ADDRESS) {
                self.addressed.insert(line_end(line).to_owned());
            }
            self.lines.push(line.clone());
        }
        true
    }
}

/// Whether the line says that a link has no address, which `init` has to hear only of one that had
/// some.
fn is_without_address(line: &str) -> bool {
    line.strip_prefix(net::ADDRESS).is_some_and(|rest| rest.starts_with(" on "))
}

/// The link that a line ends with.
fn line_end(line: &str) -> &str {
    line.rsplit(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

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
        Facts { link, terms: Some(terms), addresses6: &[], name_servers6: vec![], search6: vec![] }
    }

    #[test]
    fn two_leases_are_one_set_of_lines() {
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
    fn what_no_lease_speaks_of_is_left_alone() {
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
    fn no_line_has_more_servers_than_init_takes() {
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
    fn that_a_link_has_no_address_is_told_only_after_it_had_one() {
        let path = std::env::temp_dir().join(format!("dhcp-told-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                stream.write_all(b"ok\n").unwrap();
            }
        });
        let mut told = Told::default();
        let mut tell = |line: &str| {
            let mut reports = vec![];
            assert!(told.bring_up_to(&[line.to_owned()], &path, |report| reports.push(report)));
            reports.len()
        };
        assert_eq!(tell("address on eth0"), 0);
        assert_eq!(tell("address fec0::5/64 on eth0"), 1);
        assert_eq!(tell("address on eth0"), 1);
        assert_eq!(tell("address on eth0"), 0, "once");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn without_init_a_line_is_kept_for_later() {
        let mut told = Told::default();
        let lines = ["hostname node".to_owned()];
        assert!(
            !told.bring_up_to(&lines, Path::new("/nonexistent/socket"), |line| panic!("{line}"))
        );
        assert!(told.lines.is_empty());
    }
}
