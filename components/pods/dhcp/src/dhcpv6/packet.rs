//! IPv6 and UDP headers (RFC 8200, RFC 768) around a message. The client's port is below 1024: the
//! kernel's UDP would need a capability that the pod does not have (`NET_BIND_SERVICE`).

use std::net::Ipv6Addr;

use crate::packet::sum;

/// The port that servers and relays listen on.
const SERVER_PORT: u16 = 547;
/// The port that clients listen on.
pub const CLIENT_PORT: u16 = 546;

const IP_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

/// Returns a UDP datagram with its header, from our port to the server's.
pub fn datagram(from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let length = (UDP_HEADER + payload.len()) as u16;
    let header = [CLIENT_PORT, SERVER_PORT, length, 0].map(u16::to_be_bytes).concat();
    let mut bytes = [&header, payload].concat();
    let [high, low] = length.to_be_bytes();
    let pseudo_header = [&from.octets()[..], &to.octets(), &[0, 0, high, low, 0, 0, 0, UDP]];
    // IPv6 has no datagram without a checksum; the other form of zero is an equal sum.
    let checksum = match !sum(&pseudo_header.concat(), sum(&bytes, 0)) {
        0 => u16::MAX,
        checksum => checksum,
    };
    bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Returns the payload of an IPv6 packet that is a complete UDP datagram to our port, else `None`.
/// A packet with extension headers is refused, and one that is not to a link-local address, as it
/// may come from outside of the link. Bytes after the packet are ignored.
///
/// The UDP checksum is not verified: a packet that never left this machine (on a virtual link) does
/// not have one yet.
pub fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let (header, rest) = bytes.split_first_chunk::<IP_HEADER>()?;
    let length = u16::from_be_bytes([header[4], header[5]]);
    let is_link_local = header[24] == 0xfe && header[25] & 0xc0 == 0x80;
    if header[0] >> 4 != 6 || header[6] != UDP || !is_link_local {
        return None;
    }
    let datagram = rest.get(..length.into())?;
    let (header, _) = datagram.split_first_chunk::<UDP_HEADER>()?;
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if number(2) != CLIENT_PORT {
        return None;
    }
    datagram.get(UDP_HEADER..number(4).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet from a server's port to ours.
    fn packet(payload: &[u8]) -> Vec<u8> {
        let length = (UDP_HEADER + payload.len()) as u16;
        let [high, low] = length.to_be_bytes();
        let mut bytes = vec![0x60, 0, 0, 0, high, low, UDP, 1];
        bytes.resize(IP_HEADER, 0);
        bytes[24..26].copy_from_slice(&[0xfe, 0x80]);
        bytes.extend([SERVER_PORT, CLIENT_PORT, length, 0].map(u16::to_be_bytes).concat());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn only_a_datagram_to_our_port_has_a_payload() {
        let good = packet(b"message");
        assert_eq!(payload(&good), Some(&b"message"[..]));
        assert_eq!(payload(&[&good[..], b"padding"].concat()), Some(&b"message"[..]));
        for at in [0, 6, 24, 42, 43] {
            let mut other = good.clone();
            other[at] ^= 0x11;
            assert_eq!(payload(&other), None, "byte {at}");
        }
        assert_eq!(payload(&good[..good.len() - 1]), None, "cut");
    }

    #[test]
    fn a_datagram_with_its_checksum_sums_up_to_all_ones() {
        let [from, to]: [Ipv6Addr; 2] = ["fe80::1", "ff02::1:2"].map(|text| text.parse().unwrap());
        for payload in [&b""[..], b"odd", b"even"] {
            let bytes = datagram(from, to, payload);
            let header =
                [&from.octets()[..], &to.octets(), &[0, 0, 0, bytes.len() as u8, 0, 0, 0, UDP]];
            assert_eq!(sum(&header.concat(), sum(&bytes, 0)), u16::MAX);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = payload(&bytes);
        }
    }
}
