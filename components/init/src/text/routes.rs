//! The kernel's tables of routes and neighbours: `/proc/net/route`, `/proc/net/ipv6_route` and
//! `/proc/net/arp` (proc_net(5)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The flag of a route over a gateway (`RTF_GATEWAY` of linux/route.h).
const OVER_GATEWAY: u32 = 0x2;
/// The flag of a neighbour whose hardware address is known (`ATF_COM` of linux/if_arp.h).
const COMPLETE: u32 = 0x2;
/// The digits of a prefix length of 0 in `/proc/net/ipv6_route`.
const ANY: &str = "00";

/// A gateway to all destinations that no other route leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gateway {
    /// Of two gateways the one with the lower metric is used.
    pub metric: u32,
    /// Its address.
    pub address: IpAddr,
    /// The link that leads to it.
    pub link: String,
}

/// The IPv4 gateway that the kernel uses, of the text of `/proc/net/route`.
pub fn ipv4_gateway(table: &str) -> Option<Gateway> {
    table.lines().filter_map(ipv4_entry).min()
}

/// The IPv6 gateway that the kernel uses, of the text of `/proc/net/ipv6_route`.
pub fn ipv6_gateway(table: &str) -> Option<Gateway> {
    table.lines().filter_map(ipv6_entry).min()
}

/// Whether a neighbour answers, of the text of `/proc/net/arp`. `None` if nothing has been sent to
/// it lately.
pub fn answers(table: &str, neighbour: Ipv4Addr, link: &str) -> Option<bool> {
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, flags, _, _, on] = fields[..] else { return None };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        let is_it = address.parse() == Ok(neighbour) && on == link;
        is_it.then_some(flags & COMPLETE != 0)
    })
}

/// The gateway of a line `LINK DESTINATION GATEWAY FLAGS REFERENCES USES METRIC MASK …`. Addresses
/// are in the order of their bytes in memory.
fn ipv4_entry(line: &str) -> Option<Gateway> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [link, destination, gateway, flags, _, _, metric, mask, ..] = fields[..] else {
        return None;
    };
    let number = |text| u32::from_str_radix(text, 16).ok();
    let leads_anywhere = number(destination)? == 0 && number(mask)? == 0;
    if !leads_anywhere || number(flags)? & OVER_GATEWAY == 0 {
        return None;
    }
    let address = Ipv4Addr::from(number(gateway)?.to_ne_bytes()).into();
    Some(Gateway { metric: metric.parse().ok()?, address, link: link.to_owned() })
}

/// The gateway of a line `DESTINATION LENGTH SOURCE LENGTH NEXT-HOP METRIC REFERENCES USES FLAGS
/// LINK`.
fn ipv6_entry(line: &str) -> Option<Gateway> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, ANY, _, ANY, next_hop, metric, _, _, flags, link] = fields[..] else { return None };
    if u32::from_str_radix(flags, 16).ok()? & OVER_GATEWAY == 0 {
        return None;
    }
    let address = Ipv6Addr::from(u128::from_str_radix(next_hop, 16).ok()?).into();
    let metric = u32::from_str_radix(metric, 16).ok()?;
    Some(Gateway { metric, address, link: link.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0202000A\t0003\t0\t0\t1024\t00000000\t0\t0\t0
eth1\t00000000\t6302000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
    /// A line of `/proc/net/ipv6_route`, whose source is any.
    fn ipv6(destination: &str, next_hop: &str, metric: &str, flags: &str, link: &str) -> String {
        let zero = "0".repeat(32);
        format!("{destination} {zero} 00 {next_hop} {metric} 00000001 00000000 {flags} {link}\n")
    }

    const NEIGHBOURS: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.0.2.2         0x1         0x2         52:55:0a:00:02:02     *        eth0
10.0.2.99        0x1         0x0         00:00:00:00:00:00     *        eth0
";

    #[test]
    fn the_gateway_with_the_lowest_metric_is_used() {
        let gateway = ipv4_gateway(IPV4).unwrap();
        assert_eq!((gateway.address.to_string().as_str(), gateway.metric), ("10.0.2.99", 100));
        assert_eq!(gateway.link, "eth1");
        let (any, next_hop) = ("0".repeat(32) + " 00", "fe800000000000000000000000000002");
        let subnet = format!("fec0{} 40", "0".repeat(28));
        let table = [
            ipv6(&subnet, &"0".repeat(32), "00000100", "00000001", "eth0"),
            ipv6(&any, next_hop, "00000400", "00450003", "eth0"),
            ipv6(&any, &"0".repeat(32), "ffffffff", "00200200", "lo"),
        ];
        let gateway = ipv6_gateway(&table.concat()).unwrap();
        assert_eq!((gateway.address.to_string().as_str(), gateway.metric), ("fe80::2", 1024));
    }

    #[test]
    fn a_route_without_a_gateway_is_none() {
        assert_eq!(ipv4_gateway("eth0 00000000 00000000 0001 0 0 0 00000000 0 0 0"), None);
        assert_eq!(ipv6_gateway(""), None);
    }

    #[test]
    fn a_neighbour_answers_or_does_not_or_nobody_has_asked() {
        let asked = |last, link| answers(NEIGHBOURS, Ipv4Addr::new(10, 0, 2, last), link);
        assert_eq!(asked(2, "eth0"), Some(true));
        assert_eq!(asked(99, "eth0"), Some(false));
        assert_eq!(asked(2, "eth1"), None);
        assert_eq!(asked(3, "eth0"), None);
    }
}
