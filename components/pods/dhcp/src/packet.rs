//! IPv4 and UDP headers (RFC 791, RFC 768) around a message, for a link without an address, where
//! the kernel's UDP cannot be used.

use std::net::Ipv4Addr;

/// The port that servers and relays listen on.
pub const SERVER_PORT: u16 = 67;
/// The port that clients listen on.
pub const CLIENT_PORT: u16 = 68;

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;
const TIME_TO_LIVE: u8 = 64;
/// More-fragments flag and fragment offset, both zero in an unfragmented packet.
const FRAGMENT: u16 = 0x3fff;

/// Returns a UDP datagram with its header, from our port to the server's.
pub fn datagram(from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let length = UDP_HEADER + payload.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(CLIENT_PORT.to_be_bytes());
    bytes.extend(SERVER_PORT.to_be_bytes());
    bytes.extend((length as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);

    let mut pseudo_header = [from.octets(), to.octets(), [0, UDP, 0, 0]].concat();
    pseudo_header[10..].copy_from_slice(&(length as u16).to_be_bytes());
    // Zero means no checksum; its other form is an equal sum.
    let checksum = match !(sum(&pseudo_header, sum(&bytes, 0))) {
        0 => u16::MAX,
        checksum => checksum,
    };
    bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Returns an IPv4 packet with such a datagram.
pub fn packet(from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; IP_HEADER];
    let datagram = datagram(from, to, payload);
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&((IP_HEADER + datagram.len()) as u16).to_be_bytes());
    bytes[8] = TIME_TO_LIVE;
    bytes[9] = UDP;
    bytes[12..16].copy_from_slice(&from.octets());
    bytes[16..20].copy_from_slice(&to.octets());
    let checksum = !sum(&bytes, 0);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(datagram);
    bytes
}

/// Returns the payload of an IPv4 packet that is a complete UDP datagram from a server's port to
/// ours, else `None`. Bytes after the packet, which Ethernet adds to short ones, are ignored.
///
/// The UDP checksum is not verified: a packet that never left this machine (on a virtual link) does
/// not have one yet.
pub fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let header_length = usize::from(bytes.first()? & 0x0f) * 4;
    let (header, _) =
        bytes.split_at_checked(header_length).filter(|_| header_length >= IP_HEADER)?;
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let is_udp = header[0] >> 4 == 4 && header[9] == UDP && number(6) & FRAGMENT == 0;
    if !is_udp || !sum(header, 0) != 0 {
        return None;
    }
    let datagram = bytes.get(header_length..usize::from(number(2)))?;
    let (header, _) = datagram.split_first_chunk::<UDP_HEADER>()?;
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if number(0) != SERVER_PORT || number(2) != CLIENT_PORT {
        return None;
    }
    datagram.get(UDP_HEADER..usize::from(number(4)))
}

/// Computes the ones' complement sum of 16-bit words (RFC 1071), added to an earlier one.
pub(crate) fn sum(bytes: &[u8], before: u16) -> u16 {
    let words =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut total = words.fold(u32::from(before), |total, word| {
        let total = total + word;
        (total & 0xffff) + (total >> 16)
    });
    total = (total & 0xffff) + (total >> 16);
    total as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    /// A packet as a server sends it.
    fn from_server(payload: &[u8]) -> Vec<u8> {
        let mut bytes = packet(FROM, TO, payload);
        bytes[20..22].copy_from_slice(&SERVER_PORT.to_be_bytes());
        bytes[22..24].copy_from_slice(&CLIENT_PORT.to_be_bytes());
        bytes
    }

    #[test]
    fn the_header_checksum_is_that_of_the_textbook() {
        // The header of RFC 1071's usual worked example.
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(!sum(&header, 0), 0xb861);
    }

    #[test]
    fn padding_behind_the_packet_is_passed_over() {
        let mut bytes = from_server(b"hello");
        bytes.extend([0; 20]);
        assert_eq!(payload(&bytes), Some(&b"hello"[..]));
    }

    #[test]
    fn packets_not_from_server_to_client_are_refused() {
        assert_eq!(payload(&packet(FROM, TO, b"hello")), None);
        let mut fragment = from_server(b"hello");
        fragment[6] = 0x20;
        assert_eq!(payload(&fragment), None);
        let mut tcp = from_server(b"hello");
        tcp[9] = 6;
        assert_eq!(payload(&tcp), None);
    }

    #[test]
    fn a_flipped_bit_in_the_ip_header_is_refused() {
        for bit in 0..IP_HEADER * 8 {
            let mut bytes = from_server(b"hello");
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(payload(&bytes), None, "bit {bit}");
        }
    }

    #[test]
    fn a_cut_packet_is_refused() {
        let bytes = from_server(b"hello");
        for length in 0..bytes.len() {
            assert_eq!(payload(&bytes[..length]), None, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = payload(&bytes);
        }

        #[test]
        fn any_lengths_are_read_or_refused(ip: u16, udp: u16) {
            let mut bytes = from_server(b"hello");
            bytes[2..4].copy_from_slice(&ip.to_be_bytes());
            bytes[10..12].copy_from_slice(&[0, 0]);
            let checksum = !sum(&bytes[..IP_HEADER], 0);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            bytes[24..26].copy_from_slice(&udp.to_be_bytes());
            let _ = payload(&bytes);
        }

        /// A sum over all that the checksum covers, with it, is all ones (RFC 1071).
        #[test]
        fn the_datagram_s_checksum_adds_up(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let bytes = datagram(FROM, TO, &payload);
            let mut pseudo_header = [FROM.octets(), TO.octets(), [0, UDP, 0, 0]].concat();
            pseudo_header[10..].copy_from_slice(&(bytes.len() as u16).to_be_bytes());
            prop_assert_eq!(sum(&pseudo_header, sum(&bytes, 0)), u16::MAX);
        }
    }
}
