//! The rules that keep pods from the metadata of a cloud's machine, as a table of nftables. User
//! data may have secrets, such as the token with which the node joins its cluster. It is pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use osbuild_nftables::{Chain, ChainKind, Decision, Expression, Hook, Rule, Table};

use super::ruleset::{self, octets};

/// The chain, and its place among others at the hook: before those of other programs, and after
/// they have translated addresses.
const CHAIN: &str = "forward";
const PRIORITY: i32 = -10;

/// The addresses: that of EC2, GCE, Azure, OpenStack, Hetzner and others, and those of EC2 and GCE
/// over IPv6.
const ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The table. It concerns what the node forwards: not its own programs, nor pods with its network.
pub fn table(name: &str) -> Table {
    let hook = Hook {
        kind: ChainKind::Filter,
        number: Hook::FORWARD,
        priority: PRIORITY,
        policy: Decision::Accept,
    };
    let rules = ADDRESSES.map(drop_packets_to).into();
    let chain = Chain { name: CHAIN.to_owned(), hook: Some(hook), rules };
    Table { name: name.to_owned(), flags: 0, chains: vec![chain] }
}

fn drop_packets_to(address: IpAddr) -> Rule {
    let family = ruleset::Family::of(address);
    let mut expressions = family.expressions();
    expressions.extend([
        family.destination(),
        Expression::Equal(octets(address)),
        Expression::Decision(Decision::Drop),
    ]);
    Rule { comment: "metadata of a cloud".to_owned(), expressions }
}
