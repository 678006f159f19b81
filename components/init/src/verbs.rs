//! Reads the lines that clients send: strict, since every client is a pod.

use std::net::IpAddr;
use std::str::FromStr;

use osbuild_abi::sockets::{admin, net, time, update};
use osbuild_failure::{Failure, Outcome};

use crate::name;

/// The role of a socket, which is the right of whoever has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sets host name and name servers, tells addresses.
    Net,
    /// Asks for status, restarts and the end.
    Admin,
    /// Writes the slot that does not run, and has it booted.
    Update,
    /// Keeps the clock right, and says so.
    Time,
}

/// What time servers say of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeReport {
    /// How far the clock is behind, in microseconds.
    pub offset: i64,
    /// How many servers say so.
    pub agreeing: u8,
    /// How many have answered.
    pub answered: u8,
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// To set this host name.
    HostName(String),
    /// To set these name servers and this search list.
    Resolv {
        /// Their addresses.
        servers: Vec<IpAddr>,
        /// Domain names.
        search: Vec<String>,
    },
    /// To set these time servers.
    TimeServers(Vec<IpAddr>),
    /// To tell the addresses of a link.
    Addresses {
        /// Each `ADDRESS/PREFIX-LENGTH`.
        addresses: Vec<String>,
        /// The name of a network link.
        link: String,
    },
    /// To have the kernel hear router advertisements on the link of this name.
    RouterAdvertisements(String),
    /// To say when the node last ran.
    LastClock,
    /// To print that the clock was set.
    ClockSet(TimeReport),
    /// To print that it was not.
    ClockRefused(TimeReport),
    /// To say how the node is.
    Status,
    /// To say how the slots are.
    SlotStatus,
    /// To give out the other slot.
    OpenSlot,
    /// To boot the other slot next.
    TrySlot,
    /// To replace slotboot by what is in the descriptor that came with the line.
    ReplaceBootProgram,
    /// To start the kubelet anew.
    RestartKubelet,
    /// To reboot.
    Reboot,
    /// To power off.
    PowerOff,
}

impl Request {
    /// Whether what it asks for reads or writes a disk, which may take its time.
    pub fn waits_for_a_disk(&self) -> bool {
        match self {
            Self::Status
            | Self::SlotStatus
            | Self::OpenSlot
            | Self::TrySlot
            | Self::ReplaceBootProgram => true,
            // The host name is kept on DATA.
            Self::HostName(_) => true,
            Self::Resolv { .. }
            | Self::TimeServers(_)
            | Self::Addresses { .. }
            | Self::RouterAdvertisements(_) => false,
            Self::LastClock | Self::ClockSet(_) | Self::ClockRefused(_) => false,
            Self::RestartKubelet | Self::Reboot | Self::PowerOff => false,
        }
    }
}

/// The most name servers that a resolver reads (resolv.conf(5), `MAXNS`).
const MOST_SERVERS: usize = 3;
/// The most domains in a search list (resolv.conf(5)).
const MOST_DOMAINS: usize = 6;
/// The most time servers: more than any client asks.
const MOST_TIME_SERVERS: usize = 8;

/// The most addresses that are told of one link.
const MAX_ADDRESSES: usize = 8;

/// Reads one line, without its end.
pub fn parse(role: Role, line: &str) -> Outcome<Request> {
    if !line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(Failure::new("a line has printable ASCII characters only"));
    }
    match role {
        Role::Net => parse_net(line),
        Role::Admin => parse_admin(line),
        Role::Update => parse_update(line),
        Role::Time => parse_time(line),
    }
}

fn parse_admin(line: &str) -> Outcome<Request> {
    match line {
        admin::STATUS => Ok(Request::Status),
        admin::RESTART_KUBELET => Ok(Request::RestartKubelet),
        admin::REBOOT => Ok(Request::Reboot),
        admin::POWER_OFF => Ok(Request::PowerOff),
        _ => Err(unknown(line)),
    }
}

fn parse_update(line: &str) -> Outcome<Request> {
    match line {
        update::STATUS => Ok(Request::SlotStatus),
        update::SLOT => Ok(Request::OpenSlot),
        update::TRY => Ok(Request::TrySlot),
        update::BOOT_PROGRAM => Ok(Request::ReplaceBootProgram),
        update::REBOOT => Ok(Request::Reboot),
        _ => Err(unknown(line)),
    }
}

fn parse_time(line: &str) -> Outcome<Request> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        [time::LAST] => Ok(Request::LastClock),
        [time::SET, offset, "by", agreeing, "of", answered] => {
            Ok(Request::ClockSet(time_report(offset, agreeing, answered)?))
        }
        [time::REFUSED, offset, "by", agreeing, "of", answered] => {
            Ok(Request::ClockRefused(time_report(offset, agreeing, answered)?))
        }
        _ => Err(unknown(line)),
    }
}

fn time_report(offset: &str, agreeing: &str, answered: &str) -> Outcome<TimeReport> {
    Ok(TimeReport {
        offset: number(offset)?,
        agreeing: number(agreeing)?,
        answered: number(answered)?,
    })
}

fn number<T: FromStr>(word: &str) -> Outcome<T> {
    word.parse()
        .map_err(|_| Failure::new(format!("`{word}` is not a number that is possible here")))
}

fn parse_net(line: &str) -> Outcome<Request> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        [net::HOSTNAME, word] => Ok(Request::HostName(name::check(word)?)),
        [net::RESOLV, rest @ ..] => resolv(rest),
        [net::NTP, servers @ ..] if servers.len() > MOST_TIME_SERVERS => {
            Err(Failure::new(format!("at most {MOST_TIME_SERVERS} time servers")))
        }
        [net::NTP, servers @ ..] => Ok(Request::TimeServers(
            servers.iter().map(|word| ip_address(word)).collect::<Outcome<_>>()?,
        )),
        [net::ADDRESS, addresses @ .., "on", _] if addresses.len() > MAX_ADDRESSES => {
            Err(Failure::new(format!("at most {MAX_ADDRESSES} addresses of a link")))
        }
        [net::ADDRESS, addresses @ .., "on", link] => Ok(Request::Addresses {
            addresses: addresses
                .iter()
                .map(|word| interface_address(word))
                .collect::<Outcome<_>>()?,
            link: link_name(link)?,
        }),
        [net::ROUTER_ADVERTISEMENTS, "on", link] => {
            Ok(Request::RouterAdvertisements(link_name(link)?))
        }
        _ => Err(unknown(line)),
    }
}

fn unknown(line: &str) -> Failure {
    let verb: String = line.chars().take(32).collect();
    Failure::new(format!("`{verb}` is no verb of this socket"))
}

fn resolv(words: &[&str]) -> Outcome<Request> {
    let (servers, search) = match words.iter().position(|word| *word == net::SEARCH) {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, [].as_slice()),
    };
    if servers.len() > MOST_SERVERS || search.len() > MOST_DOMAINS {
        return Err(Failure::new(format!(
            "at most {MOST_SERVERS} name servers and {MOST_DOMAINS} search domains"
        )));
    }
    Ok(Request::Resolv {
        servers: servers.iter().map(|word| ip_address(word)).collect::<Outcome<_>>()?,
        search: search.iter().map(|word| domain(word)).collect::<Outcome<_>>()?,
    })
}

fn ip_address(word: &str) -> Outcome<IpAddr> {
    word.parse().map_err(|_| Failure::new(format!("`{word}` is not an IP address")))
}

/// A domain name: up to 253 bytes of labels of up to 63 (RFC 1035). Unlike a host name it may have
/// an underscore.
fn domain(word: &str) -> Outcome<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(known);
    if word.len() > 253 || !word.split('.').all(label) {
        return Err(Failure::new(format!("`{word}` is not a domain name")));
    }
    Ok(word.to_owned())
}

fn interface_address(word: &str) -> Outcome<String> {
    let refuse = || Failure::new(format!("`{word}` is not `ADDRESS/PREFIX-LENGTH`"));
    let (address, length) = word.split_once('/').ok_or_else(refuse)?;
    let address: IpAddr = address.parse().map_err(|_| refuse())?;
    let length: u8 = length.parse().map_err(|_| refuse())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if length > longest { Err(refuse()) } else { Ok(format!("{address}/{length}")) }
}

/// A link's name as the kernel takes it: up to 15 bytes. Ours are plainer than that. `all` and
/// `default` stand for more than one link in the kernel's settings.
fn link_name(word: &str) -> Outcome<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=15).contains(&word.len())
        && word.bytes().all(known)
        && !matches!(word, "." | ".." | "all" | "default")
    {
        Ok(word.to_owned())
    } else {
        Err(Failure::new(format!("`{word}` is not the name of a link")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_verb_is_read() {
        let resolv = Request::Resolv {
            servers: vec!["10.0.2.3".parse().unwrap()],
            search: vec!["example.org".to_owned()],
        };
        let addresses = |addresses: &[&str]| Request::Addresses {
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
            link: "eth0".to_owned(),
        };
        for (role, line, request) in [
            (Role::Net, "hostname Node-1", Request::HostName("node-1".to_owned())),
            (Role::Net, "resolv 10.0.2.3 search example.org", resolv),
            (Role::Net, "resolv", Request::Resolv { servers: vec![], search: vec![] }),
            (Role::Net, "ntp 10.0.2.4", Request::TimeServers(vec!["10.0.2.4".parse().unwrap()])),
            (Role::Net, "address 10.0.2.15/24 on eth0", addresses(&["10.0.2.15/24"])),
            (
                Role::Net,
                "address 10.0.2.15/24 fec0::5/64 on eth0",
                addresses(&["10.0.2.15/24", "fec0::5/64"]),
            ),
            (Role::Net, "address on eth0", addresses(&[])),
            (
                Role::Net,
                "router-advertisements on eth0",
                Request::RouterAdvertisements("eth0".to_owned()),
            ),
            (Role::Time, "last", Request::LastClock),
            (
                Role::Time,
                "set -7 by 2 of 3",
                Request::ClockSet(TimeReport { offset: -7, agreeing: 2, answered: 3 }),
            ),
            (
                Role::Time,
                "refused 7 by 1 of 1",
                Request::ClockRefused(TimeReport { offset: 7, agreeing: 1, answered: 1 }),
            ),
            (Role::Admin, "status", Request::Status),
            (Role::Admin, "restart kubelet", Request::RestartKubelet),
            (Role::Admin, "reboot", Request::Reboot),
            (Role::Admin, "power-off", Request::PowerOff),
            (Role::Update, "status", Request::SlotStatus),
            (Role::Update, "slot", Request::OpenSlot),
            (Role::Update, "try", Request::TrySlot),
            (Role::Update, "boot-program", Request::ReplaceBootProgram),
            (Role::Update, "reboot", Request::Reboot),
        ] {
            assert_eq!(parse(role, line), Ok(request), "{line}");
        }
    }

    #[test]
    fn a_role_has_only_its_own_verbs() {
        for line in ["reboot", "restart kubelet", "status", "power-off"] {
            assert!(parse(Role::Net, line).is_err(), "{line}");
        }
        for line in ["hostname a", "resolv 10.0.2.3", "address 10.0.2.15/24 on eth0"] {
            assert!(parse(Role::Admin, line).is_err(), "{line}");
            assert!(parse(Role::Update, line).is_err(), "{line}");
        }
        for line in ["slot", "try", "boot-program"] {
            assert!(parse(Role::Net, line).is_err() && parse(Role::Admin, line).is_err(), "{line}");
        }
        for line in ["reboot", "status", "hostname a", "ntp 10.0.2.4", "slot", "last "] {
            assert!(parse(Role::Time, line).is_err(), "{line}");
        }
        for line in ["restart kubelet", "power-off", "slot SLOT-A", "try SLOT-A"] {
            assert!(parse(Role::Update, line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_could_end_up_as_another_line_of_a_file_is_refused() {
        for line in [
            "hostname a\nb",
            "resolv 10.0.2.3\tx",
            "resolv 10.0.2.3 search a\u{2028}b",
            "resolv search a;b",
            "hostname  a",
        ] {
            assert!(parse(Role::Net, line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for line in [
            "resolv 10.0.2.3 10.0.2.4 10.0.2.5 10.0.2.6",
            "resolv search a b c d e f g",
            "resolv 10.0.2",
            "ntp 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1",
            "ntp pool.example.org",
            "address 10.0.2.15/33 on eth0",
            "address fe80::1/129 on eth0",
            "address 10.0.2.15 on eth0",
            "address 10.0.2.15/24 on a-name-too-long-for-a-link",
            "address 10.0.2.15/24",
            "address 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 on eth0",
        ] {
            assert!(parse(Role::Net, line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_time_report_has_three_numbers() {
        for line in [
            "set 1 by 2",
            "set 1 by 2 of x",
            "set 1 by 2 of 256",
            "set 9223372036854775808 by 1 of 1",
            "set 1.5 by 1 of 1",
        ] {
            assert!(parse(Role::Time, line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_link_is_one_link() {
        for name in ["all", "default", ".", "..", "../all", "a/b", "", "*"] {
            assert!(
                parse(Role::Net, &format!("router-advertisements on {name}")).is_err(),
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in any::<String>()) {
            let _ = parse(Role::Net, &line);
            let _ = parse(Role::Admin, &line);
            let _ = parse(Role::Update, &line);
            let _ = parse(Role::Time, &line);
        }

        #[test]
        fn no_words_make_it_panic(words in proptest::collection::vec("(hostname|resolv|address|search|on|[ -~]{0,8})", 0..8)) {
            let _ = parse(Role::Net, &words.join(" "));
        }
    }
}
