//! The meaning of a server's message: an address with its lifetimes, and options for the node.
//! Values that this node cannot use are left out.

use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

use super::message::{Message, Options, code};
use crate::{names, router};

/// The minimum time until a lease is renewed, so that no server has the client ask all the time.
const MIN_RENEWAL: Duration = Duration::from_secs(10);
/// The infinite lifetime in seconds.
const FOREVER: u32 = u32::MAX;
/// Bytes of an association before its options (IAID, T1 and T2), and of an address before its.
const ASSOCIATION: usize = 12;
const ADDRESS: usize = 24;
/// The suboptions of NTP servers: unicast and multicast addresses, and names (RFC 5908, 4).
const NTP_ADDRESS: u16 = 1;
/// When options are asked for again, unless the server says so, and the minimum (RFC 8415, 7.6).
const REFRESH: Duration = Duration::from_secs(86_400);
const MIN_REFRESH: Duration = Duration::from_secs(600);

/// The terms of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The identifier of the server.
    pub server: Vec<u8>,
    /// The address; none if only options were asked for.
    pub address: Option<Leased>,
    /// Name servers in order of preference.
    pub name_servers: Vec<Ipv6Addr>,
    /// Search domains.
    pub search: Vec<String>,
    /// Time servers.
    pub ntp_servers: Vec<Ipv6Addr>,
    /// When options without an address are asked for again.
    pub refresh: Duration,
}

/// A leased address. The spans count from the request; `None` is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The address.
    pub address: Ipv6Addr,
    /// How long new connections may use it.
    pub preferred: Option<Duration>,
    /// How long the node may have it.
    pub valid: Option<Duration>,
    /// When its server is asked to extend it (T1), and when any server is (T2).
    pub renew: Option<Duration>,
    /// See [`Leased::renew`].
    pub rebind: Option<Duration>,
}

/// Why a server's message gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unacceptable {
    /// It does not have the identifier of its server.
    NoServer,
    /// The server has no address for this link (`NoAddrsAvail`, or none is in the message).
    NoAddress,
    /// The server does not know the lease (`NoBinding`).
    NoBinding,
    /// The server takes this address back, and gives no other one.
    Withdrawn(Ipv6Addr),
    /// The address does not belong to this link (`NotOnLink`).
    NotOnLink,
    /// Another status.
    Status(u16),
    /// It shall be renewed after it is rebound.
    Times,
}

impl fmt::Display for Unacceptable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NoServer => f.write_str("it does not name its server"),
            Self::NoAddress => f.write_str("the server has no address for this link"),
            Self::NoBinding => f.write_str("the server does not know the lease"),
            Self::NotOnLink => f.write_str("the address does not belong to this link"),
            Self::Status(number) => write!(f, "the server's status is {number}"),
            Self::Withdrawn(address) => write!(f, "the server takes {address} back"),
            Self::Times => f.write_str("it shall be renewed after it is rebound"),
        }
    }
}

/// The identifier of the server of a message.
pub fn server(message: &Message) -> Option<&[u8]> {
    message.options.first(code::SERVER).filter(|identifier| !identifier.is_empty())
}

/// The status of a message or of its association; a missing one is success.
pub fn status(options: &Options) -> Result<(), Unacceptable> {
    let number = options.first(code::STATUS).and_then(<[u8]>::first_chunk);
    match number.map_or(0, |number| u16::from_be_bytes(*number)) {
        0 => Ok(()),
        2 => Err(Unacceptable::NoAddress),
        3 => Err(Unacceptable::NoBinding),
        4 => Err(Unacceptable::NotOnLink),
        number => Err(Unacceptable::Status(number)),
    }
}

impl Terms {
    /// Reads a message whose sender and number have been checked. With an identifier of an
    /// association (IAID), the message must give it an address.
    pub fn read(message: &Message, association: Option<u32>) -> Result<Self, Unacceptable> {
        let options = &message.options;
        let server = server(message).ok_or(Unacceptable::NoServer)?.to_vec();
        status(options)?;
        let address = association.map(|identifier| leased(options, identifier)).transpose()?;
        let refresh = options.number(code::REFRESH).map_or(Some(REFRESH), span);
        Ok(Self {
            server,
            address,
            name_servers: options.first(code::NAME_SERVERS).map_or_else(Vec::new, addresses),
            search: options.first(code::SEARCH).and_then(names::search_list).unwrap_or_default(),
            ntp_servers: options.all(code::NTP_SERVERS).flat_map(ntp_servers).collect(),
            refresh: refresh.unwrap_or(Duration::MAX).max(MIN_REFRESH),
        })
    }
}

/// The first usable address that an association has.
fn leased(options: &Options, identifier: u32) -> Result<Leased, Unacceptable> {
    let mut associations = options.all(code::ASSOCIATION);
    let ours = associations.find(|bytes| bytes.starts_with(&identifier.to_be_bytes()));
    let (fixed, rest) = ours
        .and_then(|bytes| bytes.split_first_chunk::<ASSOCIATION>())
        .ok_or(Unacceptable::NoAddress)?;
    let inner = Options::decode(rest).ok_or(Unacceptable::NoAddress)?;
    status(&inner)?;
    let times = (seconds(fixed, 4), seconds(fixed, 8));
    if times.0 > times.1 && times.1 > 0 {
        return Err(Unacceptable::Times);
    }
    let addresses = || inner.all(code::ADDRESS).filter_map(|bytes| bytes.split_first_chunk());
    let withdrawn = || {
        let mut addresses = addresses().map(|(fixed, _)| fixed);
        addresses.find(|fixed| seconds(&fixed[..], 20) == 0).and_then(address_of)
    };
    addresses()
        .find_map(|(fixed, rest)| address(fixed, rest, times))
        .ok_or_else(|| withdrawn().map_or(Unacceptable::NoAddress, Unacceptable::Withdrawn))
}

fn address_of(fixed: &[u8; ADDRESS]) -> Option<Ipv6Addr> {
    fixed.first_chunk().map(|octets: &[u8; 16]| Ipv6Addr::from(*octets))
}

/// Reads one address of an association with its times T1 and T2; `None` if the server takes it
/// back, its lifetimes contradict each other, or no host can have it.
fn address(fixed: &[u8; ADDRESS], options: &[u8], (t1, t2): (u32, u32)) -> Option<Leased> {
    let address = address_of(fixed).filter(router::is_usable)?;
    let (preferred, valid) = (seconds(fixed, 16), seconds(fixed, 20));
    let is_good = Options::decode(options).is_some_and(|inner| status(&inner).is_ok());
    if valid == 0 || preferred > valid || !is_good {
        return None;
    }
    // The recommended parts of the preferred lifetime, where the server leaves them to the client.
    // One that is never preferred is renewed by its valid lifetime.
    let base = span(if preferred > 0 { preferred } else { valid });
    let part = |given: u32, share: f64| {
        let span = if given == 0 { base.map(|base| base.mul_f64(share)) } else { span(given) };
        span.map(|span| span.max(MIN_RENEWAL))
    };
    let rebind = part(t2, 0.8);
    // A time of renewal after that of rebinding is one of the two, and the server's is kept.
    let renew = part(t1, 0.5).into_iter().chain(rebind).min();
    Some(Leased { address, preferred: span(preferred), valid: span(valid), renew, rebind })
}

fn seconds(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn span(seconds: u32) -> Option<Duration> {
    (seconds != FOREVER).then(|| Duration::from_secs(seconds.into()))
}

/// A list of addresses, without those that a program could not use; none if it is not whole.
fn addresses(bytes: &[u8]) -> Vec<Ipv6Addr> {
    let (addresses, rest) = bytes.as_chunks::<16>();
    let addresses = addresses.iter().map(|octets| Ipv6Addr::from(*octets));
    addresses.filter(|_| rest.is_empty()).filter(router::is_usable).collect()
}

/// The servers that are given by their address. A name would have to be looked up by the time
/// client, which takes addresses.
fn ntp_servers(bytes: &[u8]) -> Vec<Ipv6Addr> {
    let suboptions = Options::decode(bytes).unwrap_or_default();
    suboptions.all(NTP_ADDRESS).flat_map(addresses).collect()
}

#[cfg(test)]
mod tests {
    use super::super::message::Kind;
    use super::*;
    use proptest::prelude::*;

    const IDENTIFIER: u32 = 7;

    fn host(host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host)
    }

    fn address_option(address: Ipv6Addr, preferred: u32, valid: u32) -> (u16, Vec<u8>) {
        let lifetimes = [preferred, valid].map(u32::to_be_bytes).concat();
        (code::ADDRESS, [&address.octets()[..], &lifetimes].concat())
    }

    fn association(t1: u32, t2: u32, options: Vec<(u16, Vec<u8>)>) -> Vec<u8> {
        let fixed = [IDENTIFIER, t1, t2].map(u32::to_be_bytes).concat();
        [fixed, Options(options).encode()].concat()
    }

    fn reply(association: &[u8]) -> Message {
        Message::new(Kind::Reply, 1).with(code::SERVER, &[9]).with(code::ASSOCIATION, association)
    }

    fn leased_of(association: &[u8]) -> Result<Leased, Unacceptable> {
        Terms::read(&reply(association), Some(IDENTIFIER)).map(|terms| terms.address.unwrap())
    }

    #[test]
    fn an_address_has_its_lifetimes() {
        let bytes = association(50, 80, vec![address_option(host(5), 100, 200)]);
        let [preferred, valid, renew, rebind] =
            [100, 200, 50, 80].map(|seconds| Some(Duration::from_secs(seconds)));
        let expected = Leased { address: host(5), preferred, valid, renew, rebind };
        assert_eq!(leased_of(&bytes), Ok(expected));
    }

    #[test]
    fn without_times_of_the_server_the_preferred_lifetime_counts() {
        let times = |t1, t2, preferred| {
            let bytes = association(t1, t2, vec![address_option(host(5), preferred, FOREVER)]);
            let leased = leased_of(&bytes).unwrap();
            [leased.renew, leased.rebind].map(|span| span.map(|span| span.as_secs()))
        };
        assert_eq!(times(0, 0, 100), [Some(50), Some(80)]);
        assert_eq!(times(0, 20, 100), [Some(20), Some(20)]);
        assert_eq!(times(FOREVER, FOREVER, 100), [None, None]);
        assert_eq!(times(0, 0, FOREVER), [None, None]);
    }

    #[test]
    fn times_that_contradict_each_other_are_refused() {
        let bytes = association(50, 40, vec![address_option(host(5), 100, 200)]);
        assert_eq!(leased_of(&bytes), Err(Unacceptable::Times));
    }

    #[test]
    fn a_lease_is_renewed_after_ten_seconds_at_the_earliest() {
        let bytes = association(1, 2, vec![address_option(host(5), FOREVER, FOREVER)]);
        let leased = leased_of(&bytes).unwrap();
        assert_eq!((leased.renew, leased.rebind), (Some(MIN_RENEWAL), Some(MIN_RENEWAL)));
    }

    #[test]
    fn an_address_that_the_server_takes_back_is_named() {
        let bytes = association(0, 0, vec![address_option(host(5), 0, 0)]);
        assert_eq!(leased_of(&bytes), Err(Unacceptable::Withdrawn(host(5))));
    }

    #[test]
    fn each_option_with_a_time_server_is_read() {
        let server = |last| Options(vec![(1, host(last).octets().to_vec())]).encode();
        let message = Message::new(Kind::Reply, 1)
            .with(code::SERVER, &[9])
            .with(code::NTP_SERVERS, &server(8))
            .with(code::NTP_SERVERS, &server(9));
        assert_eq!(Terms::read(&message, None).unwrap().ntp_servers, [host(8), host(9)]);
    }

    #[test]
    fn an_address_that_is_taken_back_or_of_no_host_is_passed_over() {
        let first = [(host(4), 0, 0), (host(4), 3, 2), (Ipv6Addr::LOCALHOST, 1, 1)];
        for (address, preferred, valid) in first {
            let options =
                vec![address_option(address, preferred, valid), address_option(host(5), 1, 1)];
            assert_eq!(leased_of(&association(0, 0, options)).unwrap().address, host(5));
        }
        assert_eq!(leased_of(&association(0, 0, vec![])), Err(Unacceptable::NoAddress));
    }

    #[test]
    fn a_status_that_is_not_success_refuses_the_message() {
        let status = |number: u8| (code::STATUS, vec![0, number, b'x']);
        for (number, reason) in [
            (1, Unacceptable::Status(1)),
            (2, Unacceptable::NoAddress),
            (3, Unacceptable::NoBinding),
            (4, Unacceptable::NotOnLink),
        ] {
            let options = vec![status(number), address_option(host(5), 1, 1)];
            assert_eq!(leased_of(&association(0, 0, options)), Err(reason), "of the association");
            let good = association(0, 0, vec![address_option(host(5), 1, 1)]);
            let message = reply(&good).with(code::STATUS, &status(number).1);
            assert_eq!(Terms::read(&message, Some(IDENTIFIER)), Err(reason), "of the message");
        }
    }

    #[test]
    fn options_for_the_node_are_read() {
        let list = |hosts: &[Ipv6Addr]| hosts.iter().flat_map(Ipv6Addr::octets).collect::<Vec<_>>();
        let ntp = Options(vec![(3, b"\x02hq\0".to_vec()), (1, list(&[host(9)]))]).encode();
        let message = Message::new(Kind::Reply, 1)
            .with(code::SERVER, &[9])
            .with(code::NAME_SERVERS, &list(&[host(3), "fe80::1".parse().unwrap(), host(4)]))
            .with(code::SEARCH, b"\x03eng\x07example\0\x02hq\0")
            .with(code::NTP_SERVERS, &ntp)
            .with(code::REFRESH, &60_u32.to_be_bytes());
        let terms = Terms::read(&message, None).unwrap();
        assert_eq!(terms.name_servers, [host(3), host(4)]);
        assert_eq!(terms.search, ["eng.example", "hq"]);
        assert_eq!(terms.ntp_servers, [host(9)]);
        assert_eq!(terms.refresh, MIN_REFRESH);
        assert_eq!(terms.address, None);
    }

    proptest! {
        #[test]
        fn any_options_are_read_or_refused(
            fixed in prop::collection::vec(any::<u8>(), 0..60),
            options in prop::collection::vec(
                (0..90_u16, prop::collection::vec(any::<u8>(), 0..60)),
                0..8,
            ),
        ) {
            let mut bytes = IDENTIFIER.to_be_bytes().to_vec();
            bytes.extend(fixed);
            let mut message = reply(&bytes);
            message.options.0.extend(options);
            if let Ok(terms) = Terms::read(&message, Some(IDENTIFIER)) {
                let leased = terms.address.unwrap();
                prop_assert!(leased.valid != Some(Duration::ZERO));
                prop_assert!(leased.rebind.is_none() || leased.renew <= leased.rebind);
            }
        }
    }
}
