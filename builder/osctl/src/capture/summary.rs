//! A captured packet as a line for people. tcpdump and Wireshark know more.

use super::{COOKED, COOKED_HEADER};
use etherparse::{
    EtherType, LaxLinkExtSlice, LaxNetSlice, LaxSlicedPacket, LinkSlice, TcpSlice, TransportSlice,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use osbuild_cosi::v1::{CaptureLink, CapturedPacket};
use std::net::{IpAddr, SocketAddr};

/// How the direction of a packet is shown that has `PACKET_OUTGOING` (packet(7)).
const OUTGOING: u8 = 4;

/// The format of a capture's packets as lines of text.
pub struct Summary {
    link_type: u32,
    links: Vec<CaptureLink>,
    zone: TimeZone,
}

impl Summary {
    /// Returns the format of a capture. `link_type` is the pcap number of the header that begins
    /// each packet, `links` are the captured links, and times are printed in `zone`.
    pub fn new(link_type: u32, links: Vec<CaptureLink>, zone: TimeZone) -> Summary {
        Summary { link_type, links, zone }
    }

    /// The line of a packet. It has no text of the packet, only what its numbers mean.
    pub fn line(&self, packet: &CapturedPacket) -> String {
        let nanoseconds = i128::from(packet.time_nanoseconds);
        let time = Timestamp::from_nanosecond(nanoseconds).unwrap_or_default();
        let time = time.to_zoned(self.zone.clone()).strftime("%H:%M:%S%.6f").to_string();
        let (link, text) = match self.link_type {
            COOKED => self.cooked(&packet.data),
            _ => (String::new(), ethernet(&packet.data)),
        };
        format!("{time}  {link}{text}  {} bytes\n", packet.length)
    }

    /// The link and the direction of a packet whose header names them, and the rest.
    fn cooked(&self, data: &[u8]) -> (String, String) {
        let Some((header, rest)) = data.split_at_checked(COOKED_HEADER) else {
            return (String::new(), "cut off".to_owned());
        };
        let index = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let link = self.links.iter().find(|link| link.index == index);
        let link = link.map_or_else(|| format!("link {index}"), |link| link.name.clone());
        let direction = if header[10] == OUTGOING { "out" } else { "in" };
        let protocol = EtherType(u16::from_be_bytes([header[0], header[1]]));
        let packet = LaxSlicedPacket::from_ether_type(protocol, rest);
        let text = of_network(&packet).unwrap_or_else(|| unknown(protocol));
        (format!("{link} {direction}  "), text)
    }
}

fn ethernet(data: &[u8]) -> String {
    let Ok(packet) = LaxSlicedPacket::from_ethernet(data) else { return "cut off".to_owned() };
    let mut text = String::new();
    for tag in &packet.link_exts {
        if let LaxLinkExtSlice::Vlan(tag) = tag {
            text += &format!("vlan {} ", tag.vlan_identifier().value());
        }
    }
    let protocol = match (packet.ether_payload(), &packet.link) {
        (Some(payload), _) => payload.ether_type,
        (None, Some(LinkSlice::Ethernet2(header))) => header.ether_type(),
        _ => EtherType(0),
    };
    text + &of_network(&packet).unwrap_or_else(|| unknown(protocol))
}

fn unknown(EtherType(protocol): EtherType) -> String {
    format!("protocol 0x{protocol:04x}")
}

/// The addresses, ports and protocol of a packet, from its network and transport headers.
fn of_network(packet: &LaxSlicedPacket) -> Option<String> {
    let (source, destination, protocol, is_part) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let (from, to) = (header.source_addr().into(), header.destination_addr().into());
            (from, to, ip.payload_ip_number().0, ip.is_payload_fragmented())
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (from, to) = (header.source_addr().into(), header.destination_addr().into());
            (from, to, ip.payload().ip_number.0, ip.is_payload_fragmented())
        }
        LaxNetSlice::Arp(arp) => return Some(of_arp(arp)),
    };
    let ends = |from: u16, to: u16| {
        format!("{} > {}", SocketAddr::new(source, from), SocketAddr::new(destination, to))
    };
    Some(match &packet.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            format!("{}  tcp {}", ends(tcp.source_port(), tcp.destination_port()), flags(tcp))
        }
        Some(TransportSlice::Udp(udp)) => {
            format!("{}  udp", ends(udp.source_port(), udp.destination_port()))
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            let (kind, code) = (icmp.type_u8(), icmp.code_u8());
            format!("{source} > {destination}  icmp type {kind} code {code}")
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            let (kind, code) = (icmp.type_u8(), icmp.code_u8());
            format!("{source} > {destination}  icmp6 type {kind} code {code}")
        }
        _ if is_part => format!("{source} > {destination}  part of protocol {protocol}"),
        _ => format!("{source} > {destination}  protocol {protocol}"),
    })
}

/// The letters of tcpdump.
fn flags(tcp: &TcpSlice) -> String {
    let flags = [
        (tcp.syn(), 'S'),
        (tcp.fin(), 'F'),
        (tcp.rst(), 'R'),
        (tcp.psh(), 'P'),
        (tcp.urg(), 'U'),
        (tcp.ack(), '.'),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect()
}

fn of_arp(arp: &etherparse::ArpPacketSlice) -> String {
    let address = |bytes: &[u8]| {
        let bytes: Option<[u8; 4]> = bytes.try_into().ok();
        bytes.map_or_else(|| "?".to_owned(), |bytes| IpAddr::from(bytes).to_string())
    };
    let (sender, target) =
        (address(arp.sender_protocol_addr()), address(arp.target_protocol_addr()));
    let what = match arp.operation().0 {
        1 => "asks for",
        _ => "answers",
    };
    format!("arp {sender} {what} {target}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ETHERNET: u32 = 1;

    fn line(link_type: u32, data: Vec<u8>) -> String {
        let links = vec![CaptureLink { index: 2, name: "eth0".to_owned() }];
        let summary = Summary::new(link_type, links, TimeZone::UTC);
        let length = data.len() as u32;
        summary.line(&CapturedPacket { time_nanoseconds: 3_723_000_004_000, length, data })
    }

    /// A header of IPv4 that carries this protocol, from 10.0.0.1 to 10.0.0.2.
    fn ipv4(protocol: u8, rest: &[u8]) -> Vec<u8> {
        let length = 20 + rest.len() as u8;
        let mut packet = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(rest);
        packet
    }

    #[test]
    fn a_packet_is_a_line_with_its_ends() {
        // From port 443 to 5000, with the flags SYN and ACK.
        let tcp = [1, 187, 19, 136, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x12, 0, 9, 0, 0, 0, 0];
        let packet = [&[1; 12][..], &[8, 0], &ipv4(6, &tcp)].concat();
        assert_eq!(
            line(ETHERNET, packet),
            "01:02:03.000004  10.0.0.1:443 > 10.0.0.2:5000  tcp S.  54 bytes\n"
        );
        let mut packet = vec![8, 0, 0, 0, 0, 0, 0, 2, 0, 1, OUTGOING, 6, 0, 0, 0, 0, 0, 0, 0, 0];
        packet.extend(ipv4(17, &[0, 53, 0, 54, 0, 9, 0, 0, 1]));
        let shown = line(COOKED, packet);
        assert_eq!(shown, "01:02:03.000004  eth0 out  10.0.0.1:53 > 10.0.0.2:54  udp  49 bytes\n");
        let vlan = [&[1; 12][..], &[0x81, 0, 0, 5, 0x88, 0xcc], &[0; 40]].concat();
        assert_eq!(line(ETHERNET, vlan), "01:02:03.000004  vlan 5 protocol 0x88cc  58 bytes\n");
    }

    proptest! {
        #[test]
        fn every_packet_is_one_line_of_ascii(
            data in proptest::collection::vec(any::<u8>(), 0..120),
            protocol in prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x0806), any::<u16>()],
        ) {
            let mut data = data;
            for (link_type, at) in [(ETHERNET, 12), (COOKED, 0)] {
                if data.len() > at + 2 {
                    data[at..at + 2].copy_from_slice(&protocol.to_be_bytes());
                }
                let line = line(link_type, data.clone());
                let (text, end) = line.split_at(line.len() - 1);
                prop_assert!(end == "\n" && text.chars().all(|c| c.is_ascii() && !c.is_control()));
            }
        }
    }
}
