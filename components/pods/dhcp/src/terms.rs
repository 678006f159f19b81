//! The terms of an offer or a lease, read from a message and checked: no other file reads an
//! option's bytes.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::message::{Message, code};
use crate::names;
use crate::netlink::IPV6_MIN_MTU;

/// The shortest accepted lease. With a shorter one the client would only renew.
pub const MIN_LEASE: Duration = Duration::from_secs(4);
/// The smallest accepted MTU: with a smaller one the kernel takes IPv6 from the link.
const MIN_MTU: u16 = IPV6_MIN_MTU as u16;
/// The infinite lease time (RFC 2131, 3.3).
const INFINITE: u32 = u32::MAX;

/// The terms of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The node's address on this link.
    pub address: Ipv4Addr,
    /// The length of the subnet's prefix in bits, 0 to 32.
    pub prefix_length: u8,
    /// The server identifier, which is its address.
    pub server: Ipv4Addr,
    /// The lifetimes; `None` is infinite.
    pub lifetimes: Option<Lifetimes>,
    /// Routes besides that to the subnet. Those without a gateway come first, because others may
    /// depend on them.
    pub routes: Vec<Route>,
    /// The MTU of the link in bytes.
    pub mtu: Option<u16>,
    /// DNS servers, the preferred one first.
    pub name_servers: Vec<Ipv4Addr>,
    /// Domains for short names.
    pub search: Vec<String>,
    /// Time servers, the preferred one first.
    pub ntp_servers: Vec<Ipv4Addr>,
    /// The node's name.
    pub host_name: Option<String>,
}

/// Spans since the lease was requested, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// When the client asks the lease's server to extend it (T1).
    pub renew: Duration,
    /// When the client asks any server to (T2).
    pub rebind: Duration,
    /// When the address expires.
    pub expire: Duration,
}

/// A route over the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, with no bit set after the prefix.
    pub destination: Ipv4Addr,
    /// The length of the destination's prefix in bits, 0 (the default route) to 32.
    pub prefix_length: u8,
    /// The router; `None` if the destination is on the link.
    pub gateway: Option<Ipv4Addr>,
}

impl Route {
    /// Whether it leads to the same subnet as another one, perhaps by another way.
    pub fn leads_to_same(&self, other: &Self) -> bool {
        (self.destination, self.prefix_length) == (other.destination, other.prefix_length)
    }
}

/// Why a message's terms were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unacceptable {
    /// The address is not a host's.
    Address(Ipv4Addr),
    /// The subnet mask is invalid.
    Mask(Ipv4Addr),
    /// The server identifier is missing.
    NoServer,
    /// The lease time is missing.
    NoLeaseTime,
    /// The lease is shorter than [`MIN_LEASE`].
    TooShort(Duration),
}

impl fmt::Display for Unacceptable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "no host can have the address {address}"),
            Self::Mask(mask) => write!(f, "{mask} is not a subnet mask"),
            Self::NoServer => f.write_str("the server does not say who it is"),
            Self::NoLeaseTime => f.write_str("the server does not say for how long"),
            Self::TooShort(lease) => write!(f, "a lease of {} s is too short", lease.as_secs()),
        }
    }
}

impl std::error::Error for Unacceptable {}

impl Terms {
    /// Reads the terms of an OFFER or ACK. Invalid optional settings are left out.
    pub fn read(message: &Message) -> Result<Self, Unacceptable> {
        let address = message.yiaddr;
        if !usable(address) || address.is_broadcast() {
            return Err(Unacceptable::Address(address));
        }
        Ok(Self {
            address,
            prefix_length: prefix_length(message)?,
            server: server(message).ok_or(Unacceptable::NoServer)?,
            lifetimes: lifetimes(message)?,
            routes: routes(message),
            mtu: message.option(code::MTU).and_then(number).filter(|mtu| *mtu >= MIN_MTU),
            name_servers: addresses(message, code::NAME_SERVERS),
            search: search(message),
            ntp_servers: addresses(message, code::NTP_SERVERS),
            host_name: message.option(code::HOST_NAME).and_then(names::host_name),
        })
    }
}

/// The server identifier (option 54), with which a client distinguishes servers.
pub fn server(message: &Message) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = message.option(code::SERVER)?.try_into().ok()?;
    Some(octets.into()).filter(|address| usable(*address))
}

fn usable(address: Ipv4Addr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
}

fn number(value: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(value.try_into().ok()?))
}

fn seconds(message: &Message, code: u8) -> Option<u32> {
    Some(u32::from_be_bytes(message.option(code)?.try_into().ok()?))
}

/// All complete addresses of a list option that a host can have. A remainder, which RFC 2132
/// forbids, is ignored.
fn addresses(message: &Message, code: u8) -> Vec<Ipv4Addr> {
    let (list, _) = message.option(code).unwrap_or_default().as_chunks::<4>();
    list.iter().map(|octets| Ipv4Addr::from(*octets)).filter(|address| usable(*address)).collect()
}

/// The length of the subnet mask; without a mask, that of the address's class (RFC 950), like other
/// clients.
fn prefix_length(message: &Message) -> Result<u8, Unacceptable> {
    let Some(octets) =
        message.option(code::SUBNET_MASK).and_then(|value| <[u8; 4]>::try_from(value).ok())
    else {
        return Ok(match message.yiaddr.octets()[0] {
            0..128 => 8,
            128..192 => 16,
            192.. => 24,
        });
    };
    let mask = u32::from_be_bytes(octets);
    let length = mask.leading_ones();
    if length == 0 || mask.count_ones() != length {
        return Err(Unacceptable::Mask(octets.into()));
    }
    Ok(length as u8)
}

/// The lease's lifetimes. T1 and T2 that are out of order are replaced with the defaults of RFC
/// 2131, 4.4.5.
fn lifetimes(message: &Message) -> Result<Option<Lifetimes>, Unacceptable> {
    let lease = match seconds(message, code::LEASE_TIME) {
        None => return Err(Unacceptable::NoLeaseTime),
        Some(INFINITE) => return Ok(None),
        Some(lease) => Duration::from_secs(lease.into()),
    };
    if lease < MIN_LEASE {
        return Err(Unacceptable::TooShort(lease));
    }
    let given = |code| seconds(message, code).map(|seconds| Duration::from_secs(seconds.into()));
    let renew = given(code::T1).unwrap_or(lease / 2);
    let rebind = given(code::T2).unwrap_or(lease * 7 / 8);
    let in_order = Duration::ZERO < renew && renew < rebind && rebind < lease;
    let (renew, rebind) = if in_order { (renew, rebind) } else { (lease / 2, lease * 7 / 8) };
    Ok(Some(Lifetimes { renew, rebind, expire: lease }))
}

/// The routes: only the classless ones if there are any (RFC 3442), else the first router.
fn routes(message: &Message) -> Vec<Route> {
    let classless = message.option(code::CLASSLESS_ROUTES).and_then(classless_routes);
    let mut routes = classless.unwrap_or_else(|| {
        let default = |router| Route {
            destination: Ipv4Addr::UNSPECIFIED,
            prefix_length: 0,
            gateway: Some(router),
        };
        addresses(message, code::ROUTERS).into_iter().take(1).map(default).collect()
    });
    routes.sort_by_key(|route| route.gateway.is_some());
    routes
}

/// Reads option 121: a prefix length, the octets that it covers, and the router. An incomplete list
/// is refused.
fn classless_routes(mut bytes: &[u8]) -> Option<Vec<Route>> {
    let mut routes = Vec::new();
    while let [prefix_length @ 0..=32, rest @ ..] = bytes {
        let (significant, rest) = rest.split_at_checked(usize::from(prefix_length.div_ceil(8)))?;
        let (gateway, rest) = rest.split_first_chunk::<4>()?;
        let mut octets = [0; 4];
        octets[..significant.len()].copy_from_slice(significant);
        let mask = u32::MAX.checked_shl(32 - u32::from(*prefix_length)).unwrap_or(0);
        routes.push(Route {
            destination: (u32::from_be_bytes(octets) & mask).into(),
            prefix_length: *prefix_length,
            gateway: Some(Ipv4Addr::from(*gateway)).filter(|gateway| !gateway.is_unspecified()),
        });
        bytes = rest;
    }
    (bytes.is_empty() && !routes.is_empty()).then_some(routes)
}

/// The search list (RFC 3397), or else the single domain.
fn search(message: &Message) -> Vec<String> {
    let list = message.option(code::SEARCH).and_then(names::search_list).unwrap_or_default();
    if list.is_empty() {
        message.option(code::DOMAIN).and_then(names::domain).into_iter().collect()
    } else {
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Kind, Side};
    use proptest::prelude::*;

    fn ack() -> Message {
        let mut message = Message::request(Kind::Ack, 1, [2, 0, 0, 0, 0, 1])
            .with(code::SERVER, &[10, 0, 0, 1])
            .with(code::LEASE_TIME, &3600u32.to_be_bytes())
            .with(code::SUBNET_MASK, &[255, 255, 255, 0]);
        (message.side, message.yiaddr) = (Side::Server, Ipv4Addr::new(10, 0, 0, 9));
        message
    }

    fn without(code: u8) -> Message {
        let mut message = ack();
        message.options.retain(|(other, _)| *other != code);
        message
    }

    fn lifetimes_of(message: &Message) -> Lifetimes {
        Terms::read(message).unwrap().lifetimes.unwrap()
    }

    #[test]
    fn a_plain_lease_is_read() {
        let terms = Terms::read(&ack().with(code::ROUTERS, &[10, 0, 0, 1, 10, 0, 0, 2])).unwrap();
        assert_eq!((terms.address, terms.prefix_length), (Ipv4Addr::new(10, 0, 0, 9), 24));
        let default = Route {
            destination: Ipv4Addr::UNSPECIFIED,
            prefix_length: 0,
            gateway: Some(Ipv4Addr::new(10, 0, 0, 1)),
        };
        assert_eq!(terms.routes, [default]);
    }

    #[test]
    fn addresses_that_no_host_can_have_are_refused() {
        for octets in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255]] {
            let message = Message { yiaddr: octets.into(), ..ack() };
            assert_eq!(Terms::read(&message), Err(Unacceptable::Address(octets.into())));
        }
    }

    #[test]
    fn a_mask_with_a_hole_is_refused() {
        let message = without(code::SUBNET_MASK).with(code::SUBNET_MASK, &[255, 0, 255, 0]);
        assert_eq!(Terms::read(&message), Err(Unacceptable::Mask(Ipv4Addr::new(255, 0, 255, 0))));
    }

    #[test]
    fn without_a_mask_the_class_decides() {
        assert_eq!(Terms::read(&without(code::SUBNET_MASK)).unwrap().prefix_length, 8);
    }

    #[test]
    fn a_lease_needs_a_server_and_a_time() {
        assert_eq!(Terms::read(&without(code::SERVER)), Err(Unacceptable::NoServer));
        assert_eq!(Terms::read(&without(code::LEASE_TIME)), Err(Unacceptable::NoLeaseTime));
    }

    #[test]
    fn a_lease_of_no_time_is_refused() {
        let message = without(code::LEASE_TIME).with(code::LEASE_TIME, &[0; 4]);
        assert_eq!(Terms::read(&message), Err(Unacceptable::TooShort(Duration::ZERO)));
    }

    #[test]
    fn the_maximum_lifetime_is_infinite() {
        let message = without(code::LEASE_TIME).with(code::LEASE_TIME, &[255; 4]);
        assert_eq!(Terms::read(&message).unwrap().lifetimes, None);
    }

    #[test]
    fn renewal_is_at_half_and_rebinding_at_seven_eighths() {
        let lifetimes = lifetimes_of(&ack());
        assert_eq!((lifetimes.renew.as_secs(), lifetimes.rebind.as_secs()), (1800, 3150));
    }

    #[test]
    fn the_server_may_set_when_to_renew_and_rebind() {
        let message =
            ack().with(code::T1, &100u32.to_be_bytes()).with(code::T2, &200u32.to_be_bytes());
        assert_eq!(
            (lifetimes_of(&message).renew.as_secs(), lifetimes_of(&message).rebind.as_secs()),
            (100, 200)
        );
    }

    #[test]
    fn times_out_of_order_are_replaced() {
        let message =
            ack().with(code::T1, &300u32.to_be_bytes()).with(code::T2, &200u32.to_be_bytes());
        assert_eq!(lifetimes_of(&message), lifetimes_of(&ack()));
    }

    #[test]
    fn classless_routes_replace_the_router() {
        let list = [24, 10, 1, 2, 10, 0, 0, 5, 0, 10, 0, 0, 1, 32, 10, 0, 0, 1, 0, 0, 0, 0];
        let terms = Terms::read(
            &ack().with(code::ROUTERS, &[10, 0, 0, 77]).with(code::CLASSLESS_ROUTES, &list),
        )
        .unwrap();
        let shown = |route: &Route| {
            (route.destination.octets(), route.prefix_length, route.gateway.map(|it| it.octets()))
        };
        assert_eq!(
            terms.routes.iter().map(shown).collect::<Vec<_>>(),
            [
                ([10, 0, 0, 1], 32, None),
                ([10, 1, 2, 0], 24, Some([10, 0, 0, 5])),
                ([0, 0, 0, 0], 0, Some([10, 0, 0, 1])),
            ]
        );
    }

    #[test]
    fn a_route_list_that_breaks_off_leaves_the_router() {
        let message = ack()
            .with(code::ROUTERS, &[10, 0, 0, 77])
            .with(code::CLASSLESS_ROUTES, &[24, 10, 1, 2, 10]);
        assert_eq!(
            Terms::read(&message).unwrap().routes[0].gateway,
            Some(Ipv4Addr::new(10, 0, 0, 77))
        );
    }

    #[test]
    fn an_mtu_with_which_the_link_would_lose_ipv6_is_ignored() {
        let mtu = |mtu: u16| Terms::read(&ack().with(code::MTU, &mtu.to_be_bytes())).unwrap().mtu;
        assert_eq!([68, 576, 1279].map(mtu), [None; 3]);
        assert_eq!([1280, 9001].map(mtu), [Some(1280), Some(9001)]);
    }

    proptest! {
        #[test]
        fn any_options_are_read_or_refused(
            yiaddr: [u8; 4],
            options in prop::collection::vec(
                (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)),
                0..20,
            ),
        ) {
            let _ = Terms::read(&Message { yiaddr: yiaddr.into(), options, ..ack() });
        }

        #[test]
        fn any_classless_routes_are_read_or_refused(
            list in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            for route in Terms::read(&ack().with(code::CLASSLESS_ROUTES, &list)).unwrap().routes {
                prop_assert!(route.prefix_length <= 32);
            }
        }
    }
}
