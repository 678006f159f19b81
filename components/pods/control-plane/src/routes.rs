//! The routes of the node. kubeadm advertises the address of the link with the default route.

use std::fs;

use osbuild_failure::{Explain, Outcome};

/// The kernel's table of IPv4 routes (proc_net(5)).
const ROUTES: &str = "/proc/net/route";

/// Whether the node has a default route for IPv4.
///
/// # Errors
/// The kernel's table cannot be read.
pub fn has_default() -> Outcome<bool> {
    let table = fs::read_to_string(ROUTES).explain(format_args!("read {ROUTES}"))?;
    Ok(lists_default(&table))
}

/// Whether a table has a route to every destination: destination and mask are zero.
fn lists_default(table: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
