//! The loopback, and the settings of network links that a pod cannot write. Pods do everything else
//! about links.

use std::path::Path;

use osbuild_failure::{Explain, Outcome};

use crate::sys;

/// The folder with an entry for each network link.
const LINKS: &str = "/sys/class/net";
/// The folder with the IPv6 settings of each.
const IPV6_SETTINGS: &str = "/proc/sys/net/ipv6/conf";
/// Accepts router advertisements although the node forwards packets (`accept_ra` of
/// Documentation/networking/ip-sysctl.rst).
const ACCEPT_AS_ROUTER: &str = "2";

/// Sets `lo` up; the kernel gives it its addresses.
pub fn set_loopback_up() -> Outcome {
    sys::link_up("lo").explain("set `lo` up")
}

/// Whether a link of this name exists. The name has been checked and is not a path.
pub fn exists(name: &str) -> bool {
    Path::new(LINKS).join(name).is_dir()
}

/// Has the kernel accept router advertisements on a link. The name has been checked and is not a
/// path; a link that does not exist is an error.
pub fn accept_router_advertisements(name: &str) -> Outcome {
    let path = Path::new(IPV6_SETTINGS).join(name).join("accept_ra");
    std::fs::write(&path, ACCEPT_AS_ROUTER).explain(format_args!("write {}", path.display()))
}
