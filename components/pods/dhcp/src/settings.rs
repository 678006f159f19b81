//! What the leases say about the whole node, and how `init` is told: it alone can set a host name or write resolv.conf.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::sockets::{self, net};

use crate::terms::Terms;

/// How long `init` may take for an answer: it has a hundred other things to do at boot, but none takes long.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many name servers a resolver reads (resolv.conf(5)), and so how many `init` takes.
const MOST_NAME_SERVERS: usize = 3;
/// How many domains it reads.
const MOST_DOMAINS: usize = 6;

/// The lines that `init` is to be told, for the leases of all links together: the first link comes first, and names the node.
/// What no lease speaks of is left as it is.
pub fn lines<'a>(leases: impl Iterator<Item = (&'a str, &'a Terms)> + Clone) -> Vec<String> {
    let mut lines = Vec::new();
    for (link, terms) in leases.clone() {
        lines.push(format!("{} {}/{} on {link}", net::ADDRESS, terms.address, terms.prefix_length));
    }
    let terms = leases.map(|(_, terms)| terms);
    if let Some(name) = terms.clone().find_map(|terms| terms.host_name.as_ref()) {
        lines.push(format!("{} {name}", net::HOSTNAME));
    }
    let name_servers = distinct(terms.clone().flat_map(|terms| &terms.name_servers), MOST_NAME_SERVERS);
    if !name_servers.is_empty() {
        lines.push(resolv(&name_servers, &distinct(terms.clone().flat_map(|terms| &terms.search), MOST_DOMAINS)));
    }
    let ntp_servers: Vec<&Ipv4Addr> = distinct(terms.flat_map(|terms| &terms.ntp_servers), usize::MAX);
    if !ntp_servers.is_empty() {
        lines.push(words(net::NTP, &ntp_servers));
    }
    lines
}

fn resolv(name_servers: &[&Ipv4Addr], domains: &[&String]) -> String {
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

/// Tells `init` one line. An error is either that of the connection, or `init`'s own, of the kind `Other`.
pub fn tell(socket: &Path, line: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match answer.trim_end() {
        sockets::OK => Ok(()),
        "" => Err(io::ErrorKind::UnexpectedEof.into()),
        other => Err(io::Error::other(other.strip_prefix(sockets::ERROR).unwrap_or(other).to_owned())),
    }
}

/// What `init` has been told, and what it has still to be.
#[derive(Debug, Default)]
pub struct Told {
    lines: Vec<String>,
}

impl Told {
    /// Tells `init` those of the lines that it does not know yet. Returns whether it knows all of them now, so that nothing has to be
    /// tried again; `report` hears of each line that it took or refused. A line that it refuses is not repeated: it would refuse again.
    pub fn bring_up_to(&mut self, lines: &[String], socket: &Path, mut report: impl FnMut(String)) -> bool {
        self.lines.retain(|line| lines.contains(line));
        for line in lines {
            if self.lines.contains(line) {
                continue;
            }
            match tell(socket, line) {
                Ok(()) => report(format!("init took `{line}`")),
                Err(error) if error.kind() == io::ErrorKind::Other => report(format!("init refused `{line}`: {error}")),
                Err(_) => return false,
            }
            self.lines.push(line.clone());
        }
        true
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn two_leases_are_one_set_of_lines() {
        let leases = [("eth0", terms(5)), ("eth1", terms(6))];
        assert_eq!(
            lines(leases.iter().map(|(link, terms)| (*link, terms))),
            [
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
        let terms = Terms { name_servers: vec![], search: vec![], ntp_servers: vec![], host_name: None, ..terms(5) };
        assert_eq!(lines([("eth0", &terms)].into_iter()), ["address 10.0.0.5/24 on eth0"]);
    }

    #[test]
    fn without_init_a_line_is_kept_for_later() {
        let mut told = Told::default();
        let lines = ["hostname node".to_owned()];
        assert!(!told.bring_up_to(&lines, Path::new("/nonexistent/socket"), |line| panic!("{line}")));
        assert!(told.lines.is_empty());
    }
}
