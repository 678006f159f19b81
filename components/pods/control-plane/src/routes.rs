//! The routes of the node. kubeadm advertises the address of the link with the default route.

use std::fs;

use osbuild_failure::{Explain, Outcome};

/// The kernel's tables of IPv4 and IPv6 routes (proc_net(5)).
const ROUTES: &str = "/proc/net/route";
const ROUTES6: &str = "/proc/net/ipv6_route";

/// The link of the routes by which the kernel refuses packets.
const LOOPBACK: &str = "lo";

/// Whether the node has a default route for IPv4 or IPv6.
///
/// # Errors
/// The kernel's tables cannot be read.
pub fn has_default() -> Outcome<bool> {
    let read = |path| fs::read_to_string(path).explain(format_args!("read {path}"));
    Ok(lists_default(&read(ROUTES)?) || lists_default6(&read(ROUTES6)?))
}

/// Whether a table has a route to every destination: destination and mask are zero.
fn lists_default(table: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000")
    })
}

/// Whether a table of IPv6 has such a route: destination and length are zero. The kernel lists one
/// through the loopback if there is none.
fn lists_default6(table: &str) -> bool {
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_everywhere = fields.first().is_some_and(|to| to.bytes().all(|digit| digit == b'0'));
        is_everywhere && fields.get(1) == Some(&"00") && fields.last() != Some(&LOOPBACK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_may_be_one_of_ipv6() {
        let zeros = "0".repeat(32);
        let line = |to: &str, length: &str, link: &str| {
            format!("{to} {length} {zeros} 00 {zeros} 00000400 00000001 00000000 00000003 {link}\n")
        };
        let refusing = line(&zeros, "00", LOOPBACK);
        let local = line(&format!("fe80{}", "0".repeat(28)), "40", "eth0");
        assert!(lists_default6(&format!("{refusing}{}", line(&zeros, "00", "eth0"))));
        assert!(!lists_default6(&format!("{refusing}{local}")) && !lists_default6(""));
    }

    #[test]
    fn only_a_route_to_everywhere_is_a_default_route() {
        let head =
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let local = "eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let default = "eth0\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        let half = "eth0\t00000000\t0202000A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n";
        assert!(lists_default(&format!("{head}{local}{default}")));
        assert!(!lists_default(&format!("{head}{local}{half}")) && !lists_default(""));
    }
}
