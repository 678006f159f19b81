//! The machines that are compared.

use crate::image::{RECIPE, image_of};
use crate::site::Site;
use crate::vm::cluster::certificates::kubeconfig;
use crate::vm::cluster::control_plane::{BIN, ControlPlane};
use crate::vm::cluster::joining::{NodeFile, bridge};
use crate::vm::cluster::registry::Registry;
use crate::vm::machine::Machine;
use crate::vm::probe::free_port;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::paths::NODE_DOCUMENT;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The size of a disk in MiB, as `disk.sh` makes Debian's.
const DISK_MIB: u64 = 4096;

/// The kubelet's port.
const KUBELET: u16 = 10250;

/// Makes the archive of Debian's root, and a disk with it.
const ARCHIVE: &str = include_str!("archive.sh");
const DISK: &str = include_str!("disk.sh");

/// The packages of Debian beside its essential ones.
const PACKAGES: &str = include_str!("packages.txt");

/// The image of a pod's sandbox in the registry. Debian has no other one.
const SANDBOX: &str = "pause:1";

/// The name of the same image on the node.
const OWN_SANDBOX: &str = "localhost/pause:1";

/// An operating system that runs the kubelet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// The node that this project builds.
    Osbuild,
    /// A minimal Debian 12 with systemd.
    Debian,
}

impl System {
    /// Its name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Osbuild => "osbuild",
            Self::Debian => "debian",
        }
    }
}

/// A machine with a system that joins a cluster when it is powered on. Its disk is removed when
/// this is dropped.
pub struct Candidate<'a> {
    site: &'a Site<'a>,
    image: PathBuf,
    /// The port of the loopback that leads to the kubelet's.
    pub kubelet: u16,
    folder: TempDir,
    /// The size of the memory in MiB, if it is not that of the board.
    memory_mib: Option<u64>,
    /// The system.
    pub system: System,
}

impl<'a> Candidate<'a> {
    /// A machine that has never been powered on.
    pub fn new(
        site: &'a Site<'a>,
        system: System,
        plane: &ControlPlane,
        registry: &Registry,
    ) -> Result<Self> {
        // A disk is too large for a `/tmp` in memory.
        let folder = tempfile::tempdir_in(site.root.join("out/ci"));
        let folder = folder.or_build(|| "cannot make a folder".to_owned())?;
        let files = folder.path().join("files");
        let mut shared = registry.node_files(plane.authority())?;
        shared.extend(bridge(&site.project().join(BIN))?);
        shared.extend(match system {
            System::Osbuild => vec![document(plane)?],
            System::Debian => settings(site, plane)?,
        });
        shared.iter().try_for_each(|file| file.write_below(&files))?;
        let image = match system {
            System::Osbuild => image_of(&site.project(), RECIPE),
            System::Debian => {
                registry.push_layout(site, &sandbox(site, folder.path())?, OWN_SANDBOX, SANDBOX)?;
                debian(site, folder.path(), &files)?
            }
        };
        Ok(Candidate { site, image, kubelet: free_port()?, folder, memory_mib: None, system })
    }

    /// Sets the size of the memory in MiB.
    pub fn with_memory(self, mib: u64) -> Self {
        Candidate { memory_mib: Some(mib), ..self }
    }

    /// The machine. Its console is written to a log with the name of this boot.
    pub fn machine(&self, boot: &str) -> Result<Machine<'a>> {
        let (name, disk) = (self.system.name(), self.folder.path().join("disk.raw"));
        let is_new = !disk.exists();
        let log = format!("beside-debian-{name}-{boot}");
        let machine = Machine::of_board(self.site, RECIPE, &self.image, &log)?
            .keep(disk)
            .disk_size(DISK_MIB)
            .forward(self.kubelet, KUBELET);
        let machine = match self.memory_mib {
            Some(mib) => machine.memory(mib),
            None => machine,
        };
        match self.system {
            System::Osbuild if is_new => machine.files(&self.folder.path().join("files")),
            _ => Ok(machine),
        }
    }
}

/// The node document. As Debian does, the node has its name on its disk, and need not wait for the
/// network to give it one.
fn document(plane: &ControlPlane) -> Result<NodeFile> {
    let text = format!(
        "hostname = \"osbuild\"\n[cluster]\nserver = \"{}\"\ntoken = \"{}\"\n\
         certificate-authority = \"\"\"\n{}\"\"\"\n",
        plane.server(),
        plane.token(),
        plane.ca()?,
    );
    Ok(NodeFile::new(NODE_DOCUMENT, 0o600, text))
}

/// Debian's files: the settings of this project's node as far as they are not about its `init`, and
/// what the node document says.
fn settings(site: &Site, plane: &ControlPlane) -> Result<Vec<NodeFile>> {
    let read = |path: &str| {
        fs::read_to_string(site.project().join(path)).or_build(|| format!("cannot read `{path}`"))
    };
    let containerd = changed(
        &read("components/containerd/containerd.toml")?,
        &[
            (OWN_SANDBOX, &format!("registry.k8s.io/{SANDBOX}")),
            ("/run/osbuild/registries:", ""),
            ("  ShimCgroup = \"/system/shims\"\n", ""),
            ("\"/bin/runc\"", "\"/usr/local/bin/runc\""),
            ("SystemdCgroup = false", "SystemdCgroup = true"),
        ],
    )?;
    let kubelet = changed(
        &read("components/kubelet/kubelet.yaml")?,
        &[
            ("cgroupDriver: cgroupfs", "cgroupDriver: systemd"),
            ("/run/osbuild/kubelet/pods", "/etc/kubernetes/manifests"),
            ("serverTLSBootstrap: false", "serverTLSBootstrap: true"),
            ("protectKernelDefaults: true", "protectKernelDefaults: false"),
            (
                "authentication:\n",
                "authorization: { mode: Webhook }\nauthentication:\n  \
                 webhook: { enabled: true }\n  \
                 x509: { clientCAFile: /etc/kubernetes/pki/ca.crt }\n",
            ),
        ],
    )?;
    let authority = "certificate-authority: /etc/kubernetes/pki/ca.crt";
    let token = format!("token: \"{}\"", plane.token());
    let bootstrap = kubeconfig(&plane.server(), authority, &token);
    Ok(vec![
        NodeFile::new("/etc/containerd/config.toml", 0o644, containerd),
        NodeFile::new("/var/lib/kubelet/config.yaml", 0o644, kubelet),
        NodeFile::new("/etc/kubernetes/pki/ca.crt", 0o644, plane.ca()?),
        NodeFile::new("/etc/kubernetes/bootstrap-kubelet.conf", 0o600, bootstrap),
        NodeFile::new("/etc/kubernetes/manifests/.keep", 0o644, ""),
        file("/etc/systemd/system/containerd.service", include_str!("root/containerd.service")),
        file("/etc/systemd/system/kubelet.service", include_str!("root/kubelet.service")),
        file("/etc/systemd/network/20-wired.network", include_str!("root/wired.network")),
        file("/etc/sysctl.d/kubernetes.conf", "net.ipv4.ip_forward = 1\n"),
        file("/etc/hostname", "debian\n"),
        file("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 debian\n"),
        file("/etc/resolv.conf", "nameserver 10.0.2.3\n"),
        file("/etc/fstab", "/dev/vda2 / ext4 defaults 0 1\n"),
    ])
}

fn file(path: &str, text: &str) -> NodeFile {
    NodeFile::new(path, 0o644, text)
}

/// The text with each first part replaced by its second.
///
/// # Errors
/// The text lacks a part: the systems would no longer have the same settings.
fn changed(text: &str, changes: &[(&str, &str)]) -> Result<String> {
    changes.iter().try_fold(text.to_owned(), |text, (was, is)| match text.contains(was) {
        true => Ok(text.replace(was, is)),
        false => Err(Error::build(format!("the settings for Debian have nothing like `{was}`"))),
    })
}

/// Unpacks the root of the node, and returns the OCI layout in it.
fn sandbox(site: &Site, folder: &Path) -> Result<PathBuf> {
    let pods = "cpio --extract --make-directories --quiet --file \"$1\" 'layers/*'\n\
                for layer in layers/*; do fsck.erofs --extract=node --overwrite \"$layer\"; done";
    let mut unpack = Command::new("sh");
    unpack.args(["-euc", pods, "sh"]).arg(out(site).join("initramfs.cpio")).current_dir(folder);
    site.finish("bench-debian-node", &mut unpack)?;
    Ok(folder.join("node/usr/share/osbuild/images"))
}

/// Makes Debian's disk with these files and the programs of the node's root in `folder`. The
/// archive of its root is kept for later runs.
fn debian(site: &Site, folder: &Path, files: &Path) -> Result<PathBuf> {
    let archive = site.root.join("out/ci/debian-12.tar");
    let sh = |script: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-euc", script, "sh"]).current_dir(folder);
        sh
    };
    if !archive.exists() {
        let packages: Vec<&str> = PACKAGES.lines().collect();
        let mut make = sh(ARCHIVE);
        site.finish("bench-debian-archive", make.arg(&archive).arg(packages.join(",")))?;
    }
    let disk = folder.join("image.raw");
    let mut make = sh(DISK);
    site.finish("bench-debian-disk", make.args([&disk, &archive, files]))?;
    Ok(disk)
}

/// The products of the node's recipe.
fn out(site: &Site) -> PathBuf {
    site.project().join("out").join(RECIPE)
}
