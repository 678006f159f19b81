//! Network links, as far as the host has to do with them: the loopback, and the settings that a pod
//! cannot write. All else about them belongs to a pod.

use std::path::Path;

use osbuild_failure::{Explain, Outcome};

use crate::node::Node;
use crate::sys;

/// Where the kernel has a link for each network link.
const LINKS: &str = "/sys/class/net";
/// Where it has the IPv6 settings of each.
const IPV6_SETTINGS: &str = "/proc/sys/net/ipv6/conf";
/// To hear router advertisements although the node is a router itself.
const HEAR_AS_ROUTER: &str = "2";

/// Sets the loopback up; the kernel gives it its addresses.
pub fn loopback_up(_: &mut Node) -> Outcome {
    sys::link_up("lo").explain("set `lo` up")
}

/// Whether there is a link of that name, which is a plain one.
pub fn exists(name: &str) -> bool {
    Path::new(LINKS).join(name).is_dir()
}

/// Makes the kernel hear router advertisements on a link, whose name is a plain one. A link that
/// does not exist has no such setting.
pub fn hear_router_advertisements(name: &str) -> Outcome {
    let path = Path::new(IPV6_SETTINGS).join(name).join("accept_ra");
    std::fs::write(&path, HEAR_AS_ROUTER).explain(format_args!("write {}", path.display()))
}
