//! Filters: random ones, and some of each kind.

use proptest::prelude::*;
use proptest::sample::select;

/// The filters of one word.
const PROTOCOLS: &[&str] = &[
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "igmp",
    "esp",
    "ah",
    "broadcast",
    "multicast",
];

/// A filter that both compilers accept.
pub fn filter() -> impl Strategy<Value = String> {
    let part = prop_oneof![4 => word(), 4 => qualified()];
    part.prop_recursive(4, 12, 3, |inner| {
        let combined = (inner.clone(), select(&["and", "or", "&&", "||"][..]), inner.clone());
        prop_oneof![
            4 => combined.prop_map(|(one, sign, other)| format!("{one} {sign} {other}")),
            1 => inner.clone().prop_map(|one| format!("({one})")),
            1 => inner.prop_map(|one| format!("not {one}")),
        ]
    })
}

fn word() -> impl Strategy<Value = String> {
    let words = [
        "vlan",
        "vlan 3",
        "vlan 5",
        "less 60",
        "greater 80",
        "ether proto 0x88a8",
        "proto 6",
        "ip proto 47",
        "ip6 proto 17",
        "ether proto 0x0800",
    ];
    select([PROTOCOLS, &words].concat()).prop_map(str::to_owned)
}

fn direction() -> impl Strategy<Value = &'static str> {
    select(&["", "src ", "dst ", "src or dst ", "dst and src "][..])
}

fn qualified() -> impl Strategy<Value = String> {
    let hosts = ["host 10.0.0.1", "net 10.0.0.0/8", "net 10.0.0.0/30", "host 192.0.2.1"];
    let hosts = (select(&["", "ip ", "arp ", "rarp "][..]), direction(), select(hosts.to_vec()));
    let hosts6 = ["host fd00::1", "net fd00::/16", "net fd00::/15", "net ff00::/8", "host fd00::2"];
    let hosts6 = (select(&["", "ip6 "][..]), direction(), select(hosts6.to_vec()));
    let ports = ["port 53", "port 80", "portrange 80-443", "port (80 or 1024)", "port 80 or 443"];
    let ports = (select(&["", "tcp ", "udp ", "sctp "][..]), direction(), select(ports.to_vec()));
    let hardware = ["host 52:54:00:12:34:56", "host ff:ff:ff:ff:ff:ff", "host 2:2:2:2:2:2"];
    let hardware = (Just("ether "), direction(), select(hardware.to_vec()));
    prop_oneof![hosts, hosts6, ports, hardware]
        .prop_map(|(protocol, direction, value)| format!("{protocol}{direction}{value}"))
}

/// A filter of each kind.
pub fn by_hand() -> Vec<&'static str> {
    [PROTOCOLS, BY_HAND].concat()
}

const BY_HAND: &[&str] = &[
    "less 70",
    "greater 70",
    "host 10.0.0.1",
    "src host 10.0.0.1",
    "dst 10.0.0.1",
    "src or dst host 10.0.0.1",
    "src and dst net 10.0.0.0/8",
    "arp host 10.0.0.1",
    "host fd00::1",
    "ip6 src net fd00::/16",
    "net 0.0.0.0/0",
    "net ::/0",
    "port 80",
    "tcp port 80",
    "udp dst portrange 53-80",
    "port 80 or 443",
    "port 80 and not 443",
    "port (80 or 443) and not host 10.0.0.1",
    "host 10.0.0.1 or 10.0.0.2 and tcp",
    "tcp or udp and port 53",
    "not tcp and not udp",
    "! (tcp or ! port 80)",
    "proto 47",
    "ip proto 6",
    "ip6 proto 17",
    "ether proto 0x0806",
    "ether host 52:54:00:12:34:56",
    "ether src ff:ff:ff:ff:ff:ff",
    "vlan",
    "vlan 3",
    "vlan and ip",
    "vlan 3 and tcp port 80",
    "vlan and vlan 5",
    "vlan and vlan and arp",
    "ip or vlan and ip6",
    "not vlan and ip",
    "src host 10.0.0.1 and dst host 10.0.0.2 or ether host 2:2:2:2:2:2",
];

/// Filters that neither compiler accepts, with the character, from 1, at which ours reports the
/// error.
pub const REFUSED: &[(&str, usize)] = &[
    ("tcp prot 80", 5),
    ("port", 5),
    ("port 80 or", 11),
    ("or port 80", 1),
    ("(tcp", 1),
    ("tcp)", 4),
    ("10.0.0.1", 1),
    ("tcp and 80", 9),
    ("not 80", 5),
    ("tcp 80", 5),
    ("port 70000", 6),
    ("port x80x", 6),
    ("src 10.0.0.0/8", 5),
    ("host 10.0.0.0/8", 6),
    ("net 10.0.0.1/8", 5),
    ("net 10.0.0.0/33", 5),
    ("net fd00::1/64", 5),
    ("tcp host 10.0.0.1", 10),
    ("ip host fd00::1", 9),
    ("ip6 host 10.0.0.1", 10),
    ("icmp port 80", 13),
    ("vlan 4096", 6),
    ("host 52:54:00:12:34:56", 6),
    ("ether host 10.0.0.1", 12),
    ("host 10.0.0.1.2", 6),
    ("tcp # udp", 5),
    ("ether", 6),
    ("src proto 6", 11),
    ("port (80 or tcp)", 13),
    ("tcp udp", 5),
];

/// Filters that only tcpdump accepts, with the character at which our compiler refuses them.
pub const UNSUPPORTED: &[(&str, usize)] = &[
    ("tcp[13] & 2 != 0", 4),
    ("port http", 6),
    ("net 10", 5),
    ("portrange 90-80", 11),
    ("ether proto 100", 13),
    ("ip proto 300", 10),
];
