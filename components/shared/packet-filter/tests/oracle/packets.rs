//! Packets with the few addresses and ports that the filters name, so that they often match.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    /// Whether its end is missing.
    pub is_cut: bool,
}

/// Many packets.
pub fn packets(count: usize) -> impl Strategy<Value = Vec<Packet>> {
    vec(packet(), count)
}

fn packet() -> impl Strategy<Value = Packet> {
    let tags =
        vec((select(&[0x8100u16, 0x88a8, 0x9100][..]), select(&[3u16, 5, 0x1003][..])), 0..3);
    let tags = prop_oneof![3 => Just(Vec::new()), 1 => tags];
    let network = prop_oneof![4 => ipv4(), 3 => ipv6(), 2 => arp(), 1 => other()];
    let cut = prop_oneof![5 => Just(None), 1 => (1usize..90).prop_map(Some)];
    (mac(), mac(), tags, network, cut).prop_map(|(to, from, tags, (protocol, network), cut)| {
        let mut bytes = [to, from].concat();
        for (protocol, tag) in tags {
            bytes.extend(protocol.to_be_bytes());
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend(protocol.to_be_bytes());
        bytes.extend(network);
        let length = cut.map_or(bytes.len(), |cut| cut.min(bytes.len()));
        let is_cut = length < bytes.len();
        bytes.truncate(length);
        Packet { bytes, is_cut }
    })
}

fn mac() -> impl Strategy<Value = Vec<u8>> {
    select(&[[0x52, 0x54, 0, 0x12, 0x34, 0x56], [0xff; 6], [1, 0, 0x5e, 0, 0, 1], [2; 6]][..])
        .prop_map(|address| address.to_vec())
}

fn address() -> impl Strategy<Value = [u8; 4]> {
    select(&[[10, 0, 0, 1], [10, 0, 0, 2], [10, 1, 2, 3], [192, 0, 2, 1]][..])
}

fn address6() -> impl Strategy<Value = [u8; 16]> {
    select(&[(0xfd00, 1), (0xfd00, 2), (0xfd01, 1), (0xff02, 1)][..]).prop_map(|(first, last)| {
        let mut address = [0; 16];
        address[..2].copy_from_slice(&u16::to_be_bytes(first));
        address[15] = last;
        address
    })
}

fn port() -> impl Strategy<Value = u16> {
    select(&[53u16, 80, 443, 1024, 65_535][..])
}

fn protocol() -> impl Strategy<Value = u8> {
    select(&[1u8, 2, 6, 6, 6, 17, 17, 17, 44, 47, 50, 51, 58, 132][..])
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    (port(), port(), vec(any::<u8>(), 24)).prop_map(|(from, to, rest)| {
        [from.to_be_bytes().to_vec(), to.to_be_bytes().to_vec(), rest].concat()
    })
}

type Network = (u16, Vec<u8>);

fn ipv4() -> impl Strategy<Value = Network> {
    let part = select(&[0u16, 0, 0, 0x4000, 0x2000, 0x0010][..]);
    (address(), address(), protocol(), 5u8..8, part, payload()).prop_map(
        |(from, to, protocol, words, part, payload)| {
            let mut header = vec![0; usize::from(words) * 4];
            header[0] = 0x40 | words;
            header[6..8].copy_from_slice(&part.to_be_bytes());
            header[9] = protocol;
            header[12..16].copy_from_slice(&from);
            header[16..20].copy_from_slice(&to);
            header.extend(payload);
            (0x0800, header)
        },
    )
}

fn ipv6() -> impl Strategy<Value = Network> {
    (address6(), address6(), protocol(), payload(), protocol()).prop_map(
        |(from, to, protocol, mut payload, next)| {
            if protocol == 44 {
                payload[0] = next;
            }
            let mut header = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
            header.extend([from, to].concat());
            header.extend(payload);
            (0x86dd, header)
        },
    )
}

fn arp() -> impl Strategy<Value = Network> {
    (select(&[0x0806u16, 0x8035][..]), address(), address()).prop_map(|(protocol, from, to)| {
        let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1];
        packet.extend([2; 6]);
        packet.extend(from);
        packet.extend([0; 6]);
        packet.extend(to);
        (protocol, packet)
    })
}

fn other() -> impl Strategy<Value = Network> {
    (any::<u16>(), vec(any::<u8>(), 50))
}
