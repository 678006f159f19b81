//! The messages of the kernel's family `wireguard` of generic netlink: bytes only
//! (`include/uapi/linux/wireguard.h`).
//!
//! The code is our own instead of `netlink-packet-wireguard`, which with its dependencies would be
//! a second codec of netlink in this program, and keeps private keys in ordinary memory.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use osbuild_protocol::{AllowedNetwork, KEY, PublicKey, SecretKey};
use osbuild_rtnetlink::{Answer, Request, attributes, nested, u16_at, u32_at};

/// The name of the family.
const FAMILY: &[u8] = b"wireguard\0";
/// Bytes of the fixed part of a message (`genlmsghdr`), and the version in it.
const FIXED: usize = 4;
const VERSION: u8 = 1;
/// The type of messages about families (`GENL_ID_CTRL`), the command that asks for one
/// (`CTRL_CMD_GETFAMILY`), and its attributes (`CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The commands (`WG_CMD_…`).
const GET_DEVICE: u8 = 0;
const SET_DEVICE: u8 = 1;
/// The flag of an attribute with others in it (`NLA_F_NESTED`), which this family expects.
const NESTED: u16 = 0x8000;

/// The attributes of a link (`WGDEVICE_A_…`).
mod device {
    pub const INDEX: u16 = 1;
    pub const PRIVATE_KEY: u16 = 3;
    pub const PUBLIC_KEY: u16 = 4;
    pub const LISTEN_PORT: u16 = 6;
    pub const FWMARK: u16 = 7;
    pub const PEERS: u16 = 8;
}

/// The attributes of a peer (`WGPEER_A_…`).
mod peer {
    pub const PUBLIC_KEY: u16 = 1;
    pub const PRESHARED_KEY: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const ENDPOINT: u16 = 4;
    pub const KEEPALIVE: u16 = 5;
    pub const LAST_HANDSHAKE: u16 = 6;
    pub const ALLOWED_IPS: u16 = 9;
}

/// The attributes of a network of a peer (`WGALLOWEDIP_A_…`).
mod network {
    pub const FAMILY: u16 = 1;
    pub const ADDRESS: u16 = 2;
    pub const LENGTH: u16 = 3;
}

/// The flags of a peer: remove it; its networks are all that it has; change it only if it is there
/// (`WGPEER_F_…`).
const REMOVE: u32 = 1;
const REPLACE_NETWORKS: u32 = 2;
const UPDATE: u32 = 4;

/// A link as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The key of the node; none if it has none.
    pub private_key: Option<SecretKey>,
    /// The key by which peers know it.
    pub public_key: Option<PublicKey>,
    /// The UDP port; 0 if the kernel will choose one.
    pub listen_port: u16,
    /// The mark of the encrypted packets; 0 for none.
    pub fwmark: u32,
    /// The peers, in the order of the kernel.
    pub peers: Vec<Peer>,
}

/// A peer as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its key.
    pub public_key: PublicKey,
    /// The key that both have beside their own.
    pub preshared_key: Option<SecretKey>,
    /// Where it is.
    pub endpoint: Option<SocketAddr>,
    /// After how many seconds without a packet the node sends one; 0 for never.
    pub keepalive: u16,
    /// When both have agreed on keys at last, in seconds since 1970.
    pub last_handshake: Option<u64>,
    /// The networks behind it.
    pub allowed_ips: Vec<AllowedNetwork>,
}

/// The changes of a link by a request. A field that is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChange {
    /// The key of the node.
    pub private_key: Option<SecretKey>,
    /// The UDP port.
    pub listen_port: Option<u16>,
    /// The mark of the encrypted packets; 0 for none.
    pub fwmark: Option<u32>,
    /// The changes of peers, in this order.
    pub peers: Vec<PeerChange>,
}

/// The change of a peer by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerChange {
    /// It goes.
    Remove(PublicKey),
    /// It has all this, and no other networks. An endpoint that is none stays.
    Put {
        /// The peer.
        peer: Peer,
        /// Whether the link has it already.
        is_there: bool,
    },
}

/// A request for the number of the family.
pub fn family_request(flags: i32) -> Request {
    Request::new(CONTROL, flags, &[GET_FAMILY, VERSION, 0, 0]).with(FAMILY_NAME, FAMILY)
}

/// Reads the number of the family.
pub fn read_family(answer: &Answer) -> Option<u16> {
    let rest = answer.payload.get(FIXED..).filter(|_| answer.kind == CONTROL)?;
    let (_, id) = attributes(rest).find(|(kind, _)| *kind == FAMILY_ID)?;
    u16_at(id, 0)
}

/// A request for the link with this index.
pub fn device_request(family: u16, flags: i32, index: u32) -> Request {
    let fixed = [GET_DEVICE, VERSION, 0, 0];
    Request::new(family, flags, &fixed).with(device::INDEX, &index.to_ne_bytes())
}

/// A request that changes the link with this index.
pub fn change_request(family: u16, flags: i32, index: u32, change: &DeviceChange) -> Request {
    let mut request = Request::new(family, flags, &[SET_DEVICE, VERSION, 0, 0])
        .with(device::INDEX, &index.to_ne_bytes());
    if let Some(key) = &change.private_key {
        request = request.with(device::PRIVATE_KEY, key.reveal());
    }
    if let Some(port) = change.listen_port {
        request = request.with(device::LISTEN_PORT, &port.to_ne_bytes());
    }
    if let Some(mark) = change.fwmark {
        request = request.with(device::FWMARK, &mark.to_ne_bytes());
    }
    if change.peers.is_empty() {
        return request;
    }
    request.with(device::PEERS | NESTED, &list(change.peers.iter().map(peer_value)))
}

/// Attributes without names.
fn list(values: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    values.flat_map(|value| nested(&[(NESTED, &value)])).collect()
}

fn peer_value(change: &PeerChange) -> Vec<u8> {
    let (found, is_there) = match change {
        PeerChange::Remove(key) => {
            let flags = REMOVE.to_ne_bytes();
            return nested(&[(peer::PUBLIC_KEY, key.bytes()), (peer::FLAGS, &flags)]);
        }
        PeerChange::Put { peer, is_there } => (peer, *is_there),
    };
    let flags = REPLACE_NETWORKS | if is_there { UPDATE } else { 0 };
    let (flags, keepalive) = (flags.to_ne_bytes(), found.keepalive.to_ne_bytes());
    let networks = list(found.allowed_ips.iter().map(network_value));
    let endpoint = found.endpoint.map(endpoint_value);
    let mut all: Vec<(u16, &[u8])> = vec![(peer::PUBLIC_KEY, found.public_key.bytes())];
    // A peer that is there may have what it shall not have. Zeros stand for none.
    let preshared = found.preshared_key.as_ref().map(SecretKey::reveal);
    all.extend(
        preshared.or(is_there.then_some(&[0; KEY])).map(|key| (peer::PRESHARED_KEY, &key[..])),
    );
    all.extend(endpoint.as_deref().map(|endpoint| (peer::ENDPOINT, endpoint)));
    if is_there || found.keepalive != 0 {
        all.push((peer::KEEPALIVE, &keepalive));
    }
    all.push((peer::FLAGS, &flags));
    all.push((peer::ALLOWED_IPS | NESTED, &networks));
    nested(&all)
}

fn network_value((address, length): &AllowedNetwork) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    nested(&[
        (network::FAMILY, &(family as u16).to_ne_bytes()),
        (network::ADDRESS, &octets),
        (network::LENGTH, &[*length]),
    ])
}

/// The bytes of an address and a port (`sockaddr_in`, `sockaddr_in6`).
fn endpoint_value(endpoint: SocketAddr) -> Vec<u8> {
    let port = endpoint.port().to_be_bytes();
    match endpoint {
        SocketAddr::V4(endpoint) => {
            let family = (libc::AF_INET as u16).to_ne_bytes();
            [&family[..], &port, &endpoint.ip().octets(), &[0; 8]].concat()
        }
        SocketAddr::V6(endpoint) => {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            let (flow, scope) = ([0; 4], endpoint.scope_id().to_ne_bytes());
            [&family[..], &port, &flow, &endpoint.ip().octets(), &scope].concat()
        }
    }
}

impl Device {
    /// Adds what a message says about the link. The kernel spreads a link over several, and begins
    /// the next one with the peer whose networks did not fit.
    pub fn take(&mut self, payload: &[u8]) {
        let Some(rest) = payload.get(FIXED..) else { return };
        for (kind, value) in attributes(rest) {
            match kind {
                device::PRIVATE_KEY => self.private_key = secret(value),
                device::PUBLIC_KEY => self.public_key = key(value).map(PublicKey::new),
                device::LISTEN_PORT => self.listen_port = u16_at(value, 0).unwrap_or_default(),
                device::FWMARK => self.fwmark = u32_at(value, 0).unwrap_or_default(),
                device::PEERS => {
                    for found in attributes(value).filter_map(|(_, value)| read_peer(value)) {
                        self.add(found);
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, found: Peer) {
        match self.peers.last_mut().filter(|last| last.public_key == found.public_key) {
            Some(last) => last.allowed_ips.extend(found.allowed_ips),
            None => self.peers.push(found),
        }
    }
}

fn read_peer(value: &[u8]) -> Option<Peer> {
    let (mut public_key, mut preshared_key, mut endpoint) = (None, None, None);
    let (mut keepalive, mut last_handshake, mut allowed_ips) = (0, None, Vec::new());
    for (kind, value) in attributes(value) {
        match kind {
            peer::PUBLIC_KEY => public_key = key(value).map(PublicKey::new),
            peer::PRESHARED_KEY => preshared_key = secret(value),
            peer::ENDPOINT => endpoint = read_endpoint(value),
            peer::KEEPALIVE => keepalive = u16_at(value, 0)?,
            peer::LAST_HANDSHAKE => last_handshake = seconds(value),
            peer::ALLOWED_IPS => {
                allowed_ips = attributes(value).filter_map(|(_, one)| read_network(one)).collect();
            }
            _ => {}
        }
    }
    let public_key = public_key?;
    Some(Peer { public_key, preshared_key, endpoint, keepalive, last_handshake, allowed_ips })
}

fn read_network(value: &[u8]) -> Option<AllowedNetwork> {
    let of = |wanted| attributes(value).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let (octets, length) = (of(network::ADDRESS)?, *of(network::LENGTH)?.first()?);
    let address = match i32::from(u16_at(of(network::FAMILY)?, 0)?) {
        libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
        _ => return None,
    };
    Some((address, length))
}

fn read_endpoint(value: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*value.get(2..)?.first_chunk()?);
    match i32::from(u16_at(value, 0)?) {
        libc::AF_INET => {
            let octets: [u8; 4] = *value.get(4..)?.first_chunk()?;
            Some(SocketAddrV4::new(octets.into(), port).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *value.get(8..)?.first_chunk()?;
            Some(SocketAddrV6::new(octets.into(), port, 0, u32_at(value, 24)?).into())
        }
        _ => None,
    }
}

/// Whole seconds of a time (`__kernel_timespec`); none for 0, which is never.
fn seconds(value: &[u8]) -> Option<u64> {
    let seconds = i64::from_ne_bytes(*value.first_chunk()?);
    u64::try_from(seconds).ok().filter(|seconds| *seconds != 0)
}

fn key(value: &[u8]) -> Option<[u8; KEY]> {
    value.try_into().ok()
}

/// A key that is not all zero, which stands for none.
fn secret(value: &[u8]) -> Option<SecretKey> {
    key(value).filter(|key| *key != [0; KEY]).map(SecretKey::new)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
