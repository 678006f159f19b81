//! A person at a desk, who runs nodes on one network and has a registry.

use crate::image::builds_the_lab;
use crate::site::Site;
use crate::vm::cluster::certificates::Authority;
use crate::vm::cluster::images::NamedImage;
use crate::vm::cluster::registry::Registry;
use crate::vm::machine::PROCESSORS;
use crate::vm::run_command::RunCommand;
use osbuild::error::{Context, Result};
use osbuild::ship::vm::network::{Network, Protocols};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The recipe of a control plane.
pub const RECIPE: &str = "control-plane-amd64";

/// Processors of a control plane. One emulated processor has no time left for other pods.
pub const PLANE_PROCESSORS: u32 = 2;

/// How the line with the path of the kubeconfig begins.
pub const KUBECONFIG_LINE: &str = "/";

/// The folder of the copy of the checkout. In the checkout itself the disks and the cluster are
/// those of a user.
const COPY: &str = "desk";

/// A name that has been on the network before: the cluster's server has another address than on a
/// network of its own.
const NEIGHBOUR: &str = "neighbour";

/// The desk.
pub struct Desk<'a> {
    /// The checkout.
    pub site: &'a Site<'a>,
    project: PathBuf,
    network: &'static str,
    registry: Registry,
    authority: Authority,
    place: TempDir,
}

impl<'a> Desk<'a> {
    /// Starts the registry, and makes the copy, which has no disk and no cluster.
    pub fn new(site: &'a Site<'a>, network: &'static str) -> Result<Self> {
        builds_the_lab(site)?;
        let project = site.root.join("out/ci").join(COPY);
        site.copy_to(&project)?;
        let place = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let authority = Authority::new(place.path())?;
        let registry = Registry::start(site, &authority)?;
        let desk = Desk { site, project, network, registry, authority, place };
        desk.address(NEIGHBOUR)?;
        Ok(desk)
    }

    /// The address of the node with this name.
    pub fn address(&self, name: &str) -> Result<String> {
        let shared = Some(self.network.to_owned());
        Network { protocols: Protocols::Both, shared }.address(&self.site.machine, Some(name))
    }

    /// A path in the desk's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// The folder with the files of the cluster that a run made.
    pub fn cluster(&self) -> PathBuf {
        self.project.join("out").join(RECIPE).join("cluster")
    }

    /// Pushes more images to the registry.
    pub fn push(&self, images: &[NamedImage]) -> Result<()> {
        self.registry.push_all(self.site, images)
    }

    /// A new folder for a node with the files with which it pulls from the registry.
    pub fn pulls(&self, name: &str) -> Result<String> {
        let folder = self.path(name);
        for file in self.registry.node_files(&self.authority)? {
            file.write_below(&folder)?;
        }
        Ok(folder.display().to_string())
    }

    /// The same folder, with a folder of the files of this cluster.
    pub fn pulls_and(&self, cluster: &Path, part: &str) -> Result<String> {
        let mut copy = Command::new("cp");
        copy.arg("-rT").arg(cluster.join(part)).arg(self.path(part));
        self.site.finish("desk-files", &mut copy)?;
        self.pulls(part)
    }

    /// Runs a control plane on the network.
    pub fn run_plane(&self, log: &str, flags: &[&str]) -> Result<RunCommand> {
        self.run_plane_with(log, PLANE_PROCESSORS, flags)
    }

    /// Does the same with this number of processors.
    pub fn run_plane_with(&self, log: &str, processors: u32, flags: &[&str]) -> Result<RunCommand> {
        self.run(log, RECIPE, processors, flags)
    }

    /// Runs another node on the network.
    pub fn run_worker(&self, log: &str, recipe: &str, flags: &[&str]) -> Result<RunCommand> {
        self.run(log, recipe, PROCESSORS, flags)
    }

    fn run(&self, log: &str, recipe: &str, processors: u32, flags: &[&str]) -> Result<RunCommand> {
        let flags = [&["--network", self.network], flags].concat();
        RunCommand::start_in(self.site, &self.project, log, recipe, processors, &flags)
    }
}
