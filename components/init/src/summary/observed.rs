//! Reads what the kernel knows of links, gateways and memory. None of these files is on a disk.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

use osbuild_protocol::{LinkName, NetworkSetting};
use osbuild_ranks::Source;

use super::{GatewayState, Link};
use crate::meminfo::{self, Memory};
use crate::routes::{self, Gateway};

/// The folder with an entry for each network link.
const LINKS: &str = "/sys/class/net";
/// The flag of a link that is switched on (`IFF_UP` of linux/if.h).
const UP: u32 = 0x1;
/// A port that no program should serve (RFC 863).
const DISCARD: u16 = 9;

/// The network devices of the machine, without links that software has made. `settings` are those
/// of the network that shall be in effect, with their sources.
pub fn links(settings: &[(Source, NetworkSetting)]) -> Vec<Link> {
    let entries = fs::read_dir(LINKS).into_iter().flatten().flatten();
    let mut links: Vec<Link> = entries.filter_map(|entry| link(&entry.path(), settings)).collect();
    links.sort_by(|one, other| one.name.cmp(&other.name));
    links
}

fn link(folder: &Path, settings: &[(Source, NetworkSetting)]) -> Option<Link> {
    if !folder.join("device").exists() {
        return None;
    }
    let name = folder.file_name()?.to_str()?.to_owned();
    let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    let flags = text("flags");
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or_default();
    // Drivers without a word for it report `unknown`.
    let has_carrier = !matches!(text("operstate").trim(), "down" | "lowerlayerdown");
    let is_name = |link: &LinkName| link.to_string() == name;
    let decided = settings.iter().find_map(|(source, setting)| match setting {
        NetworkSetting::Dhcp(link, false) if is_name(link) => Some(*source),
        _ => None,
    });
    Some(Link {
        is_on: flags & UP != 0,
        has_carrier,
        asks: decided.is_none(),
        decided_by: decided,
        name,
    })
}

/// The gateways in use. An IPv4 gateway is sent an empty datagram, so that the kernel looks for it
/// again and the next look shows whether it answers.
pub fn gateways() -> Vec<GatewayState> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let neighbours = read("/proc/net/arp");
    let found = [
        routes::ipv4_gateway(&read("/proc/net/route")),
        routes::ipv6_gateway(&read("/proc/net/ipv6_route")),
    ];
    found.into_iter().flatten().map(|gateway| observe(gateway, &neighbours)).collect()
}

fn observe(gateway: Gateway, neighbours: &str) -> GatewayState {
    let mut state = GatewayState { gateway, answers: None };
    if let Some(address) = state.ipv4() {
        state.answers = routes::answers(neighbours, address, &state.gateway.link);
        look_for(address);
    }
    state
}

/// Has the kernel look for a neighbour. An answer, or the lack of one, is in its table.
fn look_for(neighbour: Ipv4Addr) {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return };
    if socket.set_nonblocking(true).is_ok() {
        // A network that is down has no answer either.
        let _ = socket.send_to(&[], (neighbour, DISCARD));
    }
}

/// The use of memory.
pub fn memory() -> Option<Memory> {
    meminfo::parse(&fs::read_to_string("/proc/meminfo").ok()?)
}
