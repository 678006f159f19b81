//! A node for stock workloads: it has CNI plugins, a bridge for its pods, and the probe.

use super::joining::Ports;
use super::workloads::client;
use super::{metrics, serving};
use crate::disk_file;
use crate::recipe;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::Machine;
use crate::vm::probe::{self, free_port};
use osbuild::error::Result;
use std::path::{Path, PathBuf};

/// The recipe that the node's inherits.
pub const SINGLE: &str = "single-amd64";

/// The recipe's own lines.
const RECIPE: &str = "
[pods]
probe = { component = \"probe\" }

[node.kubelet.labels]
\"example.org/recipe\" = \"lab\"
";

/// The label of the recipe.
pub const LABEL: (&str, &str) = ("example.org/recipe", "lab");

/// The addresses of the node's pods (`recipes/10-bridge.conflist`).
pub const PODS: &str = "10.88.0.0/16";

/// Their start.
pub const POD_PREFIX: &str = "10.88.";

/// The size of the node's disk in MiB, which holds the images.
pub const DISK_MIB: u64 = 4096;

/// The size of its second disk in bytes.
const SECOND_DISK: u64 = 64 << 20;

/// The node's image and disk, and ports of the loopback that lead to the node.
pub struct Lab<'a> {
    site: &'a Site<'a>,
    project: PathBuf,
    recipe: &'static str,
    disk: KeptDisk,
    /// To the probe's ports.
    pub ports: Ports,
    /// To the kubelet.
    pub kubelet: u16,
    /// To [`client::NODE_PORT`].
    pub node_port: u16,
    /// To [`metrics::NODE_PORT`].
    pub metrics: u16,
}

impl<'a> Lab<'a> {
    /// Makes the node's recipe, with this name, in a copy of the checkout.
    pub fn new(site: &'a Site<'a>, recipe: &'static str) -> Result<Self> {
        let project = site.root.join("out/ci").join(recipe);
        site.copy_to(&project)?;
        recipe::inherit(site, &project, recipe, SINGLE, RECIPE)?;
        let disk = KeptDisk::in_project(&project, recipe)?;
        let ports = Ports { place: free_port()?, socket: free_port()? };
        let [kubelet, node_port, metrics] = [free_port()?, free_port()?, free_port()?];
        Ok(Lab { site, project, recipe, disk, ports, kubelet, node_port, metrics })
    }

    /// The disk that the machine keeps.
    pub fn disk(&self) -> &Path {
        self.disk.path()
    }

    /// The arguments of QEMU for a second disk, a blank one.
    pub fn second_disk(&self) -> Result<[String; 4]> {
        let path = self.project.join("second.raw");
        disk_file::create(&path, SECOND_DISK)?;
        let drive = format!("if=none,id=second,format=raw,file={}", path.display());
        let device = "virtio-blk-pci,drive=second,serial=second-1".to_owned();
        Ok(["-drive".to_owned(), drive, "-device".to_owned(), device])
    }

    /// The machine. Its console is written to the log `log`.
    pub fn machine(&self, log: &str) -> Result<Machine<'a>> {
        let machine = Machine::of_recipe_in(self.site, &self.project, self.recipe, log)?
            .keep(self.disk.path())
            .disk_size(DISK_MIB)
            .forward(self.ports.place, probe::PLACE)
            .forward(self.ports.socket, probe::SOCKET)
            .forward(self.kubelet, serving::PORT)
            .forward(self.node_port, client::NODE_PORT);
        Ok(machine.forward(self.metrics, metrics::NODE_PORT))
    }
}
