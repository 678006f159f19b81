//! The product of a recipe: a node, or programs for the build machine.

mod api;
mod apparmor;
mod board;
mod boot;
mod command_line;
mod file_package;
pub mod fragment;
mod host_component;
mod host_programs;
pub mod image_name;
mod installs;
mod kernel;
pub mod manifest;
mod pod;
mod program_names;
mod root_file;
mod settings;
mod updates;
mod volumes;
mod writable;

pub use api::{Api, DebugAccess};
pub use apparmor::apparmor_files;
pub use board::{Board, Bus, MAX_ESP_SIZE_MIB, MAX_SLOT_SIZE_MIB, Qemu};
pub use boot::BootProgram;
pub use command_line::MAX_COMMAND_LINE;
pub use file_package::FilePackage;
pub use host_component::{BinaryName, Cgo, Compile, GoComponent, GoOutput, HostComponent};
pub use host_programs::{HostPrograms, ProgramComponent};
pub use installs::Installs;
pub use kernel::{Kernel, KernelOption, OptionValue};
pub use pod::{DebianProgram, ImageFrom, Payload, Pod, PodImage};
pub use program_names::kubelet_names;
pub use root_file::{Content, RootFile};
pub use settings::NodeSettings;
pub use updates::Updates;
pub use volumes::Volumes;
pub use writable::{Backing, WritablePath, list};

use super::lock::Pins;
use super::print::Page;
use super::{Kubernetes, LockState, Lockable, Locked, Origin, Product, Unlocked};
use std::collections::BTreeMap;

/// A node: everything that its image is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec<L: LockState = Unlocked> {
    /// The version of the node: the recipe's own, or that of its kubelet.
    pub version: String,
    /// The machine that the node runs on.
    pub board: Board,
    /// The time servers that the node uses where its network announces none: the recipe's own, or
    /// those of the board.
    pub time_servers: Vec<String>,
    /// Increased by a release that closes a security hole: a machine that has run it starts no
    /// release of a lower epoch.
    pub security_epoch: u32,
    /// The kernel and its options.
    pub kernel: Kernel,
    /// The program that the firmware starts and that starts the kernel.
    pub boot: BootProgram,
    /// The components of the host, in order of name. Each binary of `/bin` is in exactly one.
    pub components: Vec<HostComponent<L>>,
    /// The rest of the root, in order of path.
    pub files: Vec<RootFile<L>>,
    /// The writable paths that the recipe declares, in order of path.
    pub writable: Vec<WritablePath>,
    /// The static pods, in order of name.
    pub pods: Vec<Pod<L>>,
    /// The image of every pod's sandbox: `localhost/pause:1`.
    pub pause: PodImage<L>,
    /// The versions that the skew policy checks, and the exception to the peg.
    pub kubernetes: Kubernetes,
    /// The keys that the recipe names. Which ones sign is an argument of a build: the command line
    /// can name others, or none.
    pub default_signing: Option<Signing>,
    /// The clients that may use its API over the network; `None` for a node without the API.
    pub api: Option<Api>,
    /// Where the node gets its updates; `None` for one that gets none.
    pub updates: Option<Updates>,
    /// The settings that the image gives it.
    pub settings: NodeSettings,
    /// Which documents on volumes configure it; `None` for a node that reads none.
    pub volumes: Option<Volumes>,
    /// Whether a person at a console may give the node an address.
    pub console_address: bool,
    /// The node that a stick with this node installs; `None` for a node that is not an installer.
    pub installs: Option<Installs>,
}

/// The keys that sign an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// Their name: a folder in `keys/`.
    pub key: String,
    /// The line that names them; `None` for the command line.
    pub origin: Option<Origin>,
}

impl Signing {
    /// The keys that the command line names.
    pub fn with(key: &str) -> Self {
        Signing { key: key.to_owned(), origin: None }
    }
}

impl<L: LockState> NodeSpec<L> {
    /// The component that makes a binary.
    pub fn component(&self, binary: BinaryName) -> &HostComponent<L> {
        let found = self.components.iter().find(|component| component.binaries.contains(&binary));
        found.expect("a node has all seven binaries")
    }

    /// Every image that the node carries, each once: those of its pods and of their sandboxes.
    pub fn images(&self) -> impl Iterator<Item = &PodImage<L>> {
        let images = self.pods.iter().flat_map(|pod| &pod.images).chain([&self.pause]);
        images.map(|image| (&image.name, image)).collect::<BTreeMap<_, _>>().into_values()
    }

    /// The payloads of its pods' images.
    pub fn payloads(&self) -> impl Iterator<Item = &Payload<L>> {
        self.pods.iter().flat_map(|pod| &pod.images).filter_map(PodImage::payload)
    }
}

impl<L: LockState> Product<L> for NodeSpec<L> {
    fn version(&self) -> Option<&str> {
        Some(&self.version)
    }

    fn default_signing(&self) -> Option<&Signing> {
        self.default_signing.as_ref()
    }

    fn go_components(&self) -> Vec<&GoComponent<L>> {
        let of_host = self.components.iter().filter_map(HostComponent::go);
        let of_payloads = self.payloads().map(|payload| &payload.go);
        let all = of_host.chain(of_payloads).map(|go| ((&go.name, go.version), go));
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    fn print_sections(&self, page: &mut Page<'_>) {
        page.node(self);
    }
}

impl Lockable for NodeSpec {
    type Locked = NodeSpec<Locked>;

    fn lock(self, pins: &Pins<'_>) -> NodeSpec<Locked> {
        NodeSpec {
            version: self.version,
            board: self.board,
            time_servers: self.time_servers,
            security_epoch: self.security_epoch,
            kernel: self.kernel,
            boot: self.boot,
            components: self.components.into_iter().map(|each| each.lock(pins)).collect(),
            files: self.files.into_iter().map(|file| file.lock(pins)).collect(),
            writable: self.writable,
            pods: self.pods.into_iter().map(|pod| pod.lock(pins)).collect(),
            pause: self.pause.lock(pins),
            kubernetes: self.kubernetes,
            default_signing: self.default_signing,
            api: self.api,
            updates: self.updates,
            settings: self.settings,
            volumes: self.volumes,
            console_address: self.console_address,
            installs: self.installs,
        }
    }
}
