//! The links of the node.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nameindex;
use osbuild_cosi::v1::CaptureLink;
use osbuild_packet_filter::Framing;
use std::io;

/// All links.
pub fn all() -> io::Result<Vec<CaptureLink>> {
    let links = if_nameindex()?;
    let link = |link: &nix::net::if_::Interface| CaptureLink {
        index: link.index(),
        name: link.name().to_string_lossy().into_owned(),
    };
    Ok(links.iter().map(link).collect())
}

/// Returns the framing of the packets of a link. A link other than Ethernet and the loopback may
/// have headers of any format, so the kernel's description of each packet takes their place.
pub fn framing(name: &str) -> io::Result<Framing> {
    let kinds = getifaddrs()?.filter(|address| address.interface_name == name);
    let mut kinds = kinds.filter_map(|address| Some(address.address?.as_link_addr()?.hatype()));
    Ok(match kinds.next() {
        Some(libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) => Framing::Ethernet,
        _ => Framing::Cooked,
    })
}
