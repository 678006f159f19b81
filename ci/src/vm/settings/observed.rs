//! The state of the node, as `osd` observes it.

use super::node::{Node, yaml};
use crate::check::Outcome;
use crate::image;
use crate::vm::probe;
use osbuild::error::{Error, Result};
use osbuild_abi::paths::PACKAGES;

/// The address that QEMU's network gives.
const ADDRESS: &str = "eth0/10.0.2.15/24";
/// The disk that the node was booted from, and the file with its size in sectors.
const DISK: &str = "disk/vda";
const SECTORS: &str = "/sys/block/vda/size";
/// QEMU's bridge to the processor, which needs no driver.
const BRIDGE: &str = "pci/0000:00:00.0";
/// The file of the kernel's release.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The pod sees the node's own network and kernel, without a capability.
pub fn is_what_the_node_has(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let address = node.resource("AddressStatuses", ADDRESS)?;
    let holds = yaml(&address).contains("link: eth0");
    outcome.check("a status has the address of the network", holds, || address.to_string());
    let (kernel, release) = (node.resource("KernelInfos", "node")?, node.read(RELEASE)?);
    let holds = !release.is_empty() && yaml(&kernel).contains(release.trim());
    outcome.check("a resource has the kernel's release", holds, || kernel.to_string());
    let update = node.resource("UpdateStatuses", "node")?;
    let holds = yaml(&update).contains("phase: none");
    outcome.check("a node without updates shows that it has none", holds, || update.to_string());
    shows_devices(node, outcome)?;
    shows_packages(node, outcome)
}

/// The list in the root has the kubelet as the lock pins it, and crates of `osd` itself.
fn shows_packages(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let lock = image::lock(node.site, probe::RECIPE)?;
    let kubelet = lock.go.iter().find(|go| go.component == "kubelet");
    let kubelet = kubelet.ok_or_else(|| Error::build("the lock has no kubelet"))?;
    let id = format!("golang/{}@{}", kubelet.module, kubelet.version);
    let item = node.resource("SbomItems", &id)?;
    let parts = [&format!("version: {}\n", kubelet.version), "components:\n- kubelet\n"];
    let holds = parts.iter().all(|part| yaml(&item).contains(part));
    outcome.check("an item has the kubelet's locked version", holds, || item.to_string());
    let list = node.read(PACKAGES)?;
    let tonic = list.lines().find(|line| line.starts_with("pkg:cargo/tonic@")).unwrap_or_default();
    let url = tonic.split(' ').next().unwrap_or_default();
    let item = node.resource("SbomItems", url.trim_start_matches("pkg:"))?;
    let holds = yaml(&item).contains("- osd\n");
    outcome.check("a crate of osd has it among its components", holds, || item.to_string());
    Ok(())
}

/// The pod sees the hardware, with the sysfs that each container has.
fn shows_devices(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let disk = node.resource("DeviceInfos", DISK)?;
    let sectors: u64 = node.read(SECTORS)?.trim().parse().unwrap_or_default();
    let parts = [&format!("bytes: {}\n", sectors * 512), "- virtio_blk\n", "transport: virtio\n"];
    let holds = sectors > 0 && parts.iter().all(|part| yaml(&disk).contains(part));
    outcome.check("a disk has its size and its driver", holds, || disk.to_string());
    let parent = yaml(&disk).split("parent: ").nth(1).unwrap_or_default().trim();
    let card = node.resource("DeviceInfos", parent.trim_matches('"'))?;
    let parts = ["class: storage\n", "vendorId: 1af4\n", "- virtio-pci\n"];
    let holds = parts.iter().all(|part| yaml(&card).contains(part));
    outcome.check("its device of PCI has numbers and a driver", holds, || card.to_string());
    let bridge = node.resource("DeviceInfos", BRIDGE)?;
    let holds = yaml(&bridge).contains("class: bridge") && !yaml(&bridge).contains("drivers");
    outcome.check("a device without a driver has none", holds, || bridge.to_string());
    let machine = node.resource("DeviceInfos", "machine/dmi")?;
    let holds = yaml(&machine).contains("vendor: QEMU\n");
    outcome.check("the machine is what its firmware says", holds, || machine.to_string());
    Ok(())
}
