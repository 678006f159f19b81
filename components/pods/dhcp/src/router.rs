//! The options of a router advertisement for programs: name servers and search domains (RFC 8106),
//! which the kernel passes on (`RTM_NEWNDUSEROPT`, rtnetlink(7)). Bytes in, options out.

use std::net::Ipv6Addr;
use std::time::Duration;

use osbuild_rtnetlink::{u16_at, u32_at};

use crate::names;

/// The type of rtnetlink message with such options, which not every `libc` defines.
pub const NEW_OPTIONS: u16 = 68;
/// Bytes of the fixed part of such a message (`nduseroptmsg`).
const FIXED: usize = 16;
/// The type of a router advertisement (RFC 4861, 4.2), and the code zero.
const ADVERTISEMENT: [u8; 2] = [134, 0];
/// Recursive DNS Server (RFC 8106, 5.1) and DNS Search List (5.2).
const NAME_SERVERS: u8 = 25;
const SEARCH: u8 = 31;
/// The unit of an option's length in bytes.
const UNIT: usize = 8;
/// The infinite lifetime in seconds.
const FOREVER: u32 = u32::MAX;

/// One option of an advertisement. A lifetime of zero withdraws earlier values; `None` is infinite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advert {
    /// Name servers and their lifetime.
    NameServers(Vec<Ipv6Addr>, Option<Duration>),
    /// Search domains and their lifetime.
    Search(Vec<String>, Option<Duration>),
}

/// Reads the payload of a message of type [`NEW_OPTIONS`]: the index of the link, and the known
/// options. Options after an incomplete one are lost. Returns `None` for a message that is not
/// about a router advertisement.
pub fn read(payload: &[u8]) -> Option<(u32, Vec<Advert>)> {
    let fixed = payload.get(..FIXED)?;
    let (family, length, index) = (fixed[0], usize::from(u16_at(fixed, 2)?), u32_at(fixed, 4)?);
    if i32::from(family) != libc::AF_INET6 || fixed[8..10] != ADVERTISEMENT {
        return None;
    }
    Some((
        index,
        options(payload.get(FIXED..FIXED + length)?)
            .filter_map(|(kind, body)| advert(kind, body))
            .collect(),
    ))
}

/// The options, each with its type and the bytes after its length, up to the first incomplete one.
fn options(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, length) = (*bytes.first()?, usize::from(*bytes.get(1)?) * UNIT);
        let (option, rest) = bytes.split_at_checked(length).filter(|_| length > 0)?;
        bytes = rest;
        Some((kind, &option[2..]))
    })
}

/// Reads the body of an option: two reserved bytes, a lifetime in seconds, and the list.
fn advert(kind: u8, body: &[u8]) -> Option<Advert> {
    let seconds = u32::from_be_bytes(*body.get(2..)?.first_chunk()?);
    let lifetime = (seconds != FOREVER).then(|| Duration::from_secs(seconds.into()));
    let list = body.get(6..)?;
    match kind {
        NAME_SERVERS => {
            let (addresses, rest) = list.as_chunks::<16>();
            let usable =
                addresses.iter().map(|octets| Ipv6Addr::from(*octets)).filter(is_usable).collect();
            rest.is_empty().then_some(Advert::NameServers(usable, lifetime))
        }
        SEARCH => Some(Advert::Search(names::padded_list(list)?, lifetime)),
        _ => None,
    }
}

/// Whether an address can be that of a name server in resolv.conf. A link-local one would need the
/// name of its link, which is meaningless in a pod with its own network.
pub(crate) fn is_usable(address: &Ipv6Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVER: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 3);

    fn option(kind: u8, seconds: u32, list: &[u8]) -> Vec<u8> {
        let mut option =
            [&[kind, (list.len() / UNIT + 1) as u8, 0, 0][..], &seconds.to_be_bytes(), list]
                .concat();
        option.resize(option.len().next_multiple_of(UNIT), 0);
        option[1] = (option.len() / UNIT) as u8;
        option
    }

    fn message(index: u32, options: &[u8]) -> Vec<u8> {
        let mut fixed = vec![libc::AF_INET6 as u8, 0];
        fixed.extend((options.len() as u16).to_ne_bytes());
        fixed.extend(index.to_ne_bytes());
        fixed.extend([134, 0, 0, 0, 0, 0, 0, 0]);
        // Behind the options the kernel puts the router's address, as an attribute.
        [fixed, options.to_vec(), vec![20, 0, 1, 0], vec![0; 16]].concat()
    }

    #[test]
    fn name_servers_and_search_domains_are_read() {
        let options = [
            option(NAME_SERVERS, 600, &SERVER.octets()),
            option(SEARCH, 60, b"\x03eng\x07example\0\x02hq\0"),
        ]
        .concat();
        let servers = Advert::NameServers(vec![SERVER], Some(Duration::from_secs(600)));
        let search = Advert::Search(
            vec!["eng.example".to_owned(), "hq".to_owned()],
            Some(Duration::from_secs(60)),
        );
        assert_eq!(read(&message(7, &options)), Some((7, vec![servers, search])));
    }

    #[test]
    fn a_lifetime_of_all_ones_never_ends() {
        let options = option(NAME_SERVERS, FOREVER, &SERVER.octets());
        assert_eq!(
            read(&message(7, &options)),
            Some((7, vec![Advert::NameServers(vec![SERVER], None)]))
        );
    }

    #[test]
    fn an_address_that_no_resolver_could_use_is_left_out() {
        for address in ["::", "::1", "ff02::fb", "fe80::1"] {
            let address: Ipv6Addr = address.parse().unwrap();
            let options = option(NAME_SERVERS, 9, &[address.octets(), SERVER.octets()].concat());
            let left = Advert::NameServers(vec![SERVER], Some(Duration::from_secs(9)));
            assert_eq!(read(&message(7, &options)), Some((7, vec![left])), "{address}");
        }
    }

    #[test]
    fn a_message_about_something_else_is_refused() {
        let good = message(7, &option(NAME_SERVERS, 9, &SERVER.octets()));
        for at in [0, 8, 9] {
            let mut other = good.clone();
            other[at] ^= 1;
            assert_eq!(read(&other), None, "byte {at}");
        }
        assert_eq!(read(&good[..30]), None, "cut");
    }

    #[test]
    fn an_option_without_length_ends_the_row() {
        let options = [option(NAME_SERVERS, 9, &SERVER.octets()), vec![0; 8]].concat();
        assert_eq!(read(&message(7, &options)).unwrap().1.len(), 1);
    }

    #[test]
    fn a_list_that_is_not_whole_is_refused() {
        assert_eq!(read(&message(7, &option(NAME_SERVERS, 9, &[1; 8]))), Some((7, vec![])));
        assert_eq!(read(&message(7, &option(SEARCH, 9, b"\x09eng"))), Some((7, vec![])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
            let _ = read(&message(1, &bytes));
        }

        #[test]
        fn any_option_of_a_known_type_is_read_or_refused(
            kind in prop_oneof![Just(NAME_SERVERS), Just(SEARCH)],
            seconds: u32,
            list in prop::collection::vec(0..70u8, 0..100),
        ) {
            for advert in read(&message(1, &option(kind, seconds, &list))).unwrap().1 {
                match advert {
                    Advert::NameServers(servers, _) => prop_assert!(servers.iter().all(is_usable)),
                    Advert::Search(domains, _) => {
                        for domain in domains {
                            prop_assert_eq!(names::domain(domain.as_bytes()), Some(domain));
                        }
                    }
                }
            }
        }
    }
}
