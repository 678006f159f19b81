//! What is wanted, resolved: pure, without network, process, clock or environment.
//!
//! [`Project`] holds the texts that somebody wrote, `resolve` makes a [`Plan`] of them, and a
//! [`Lock`] pins what the plan wants. Only a plan with its lock, [`Plan<Locked>`], can be built:
//! that is a type and not a check.

mod architecture;
mod binary;
mod board;
mod boot;
mod component;
mod crates;
mod date;
mod document;
mod edit;
mod file;
mod fragment;
mod held;
mod host_programs;
mod inherit;
mod installs;
mod kernel;
mod keys;
mod lock;
mod manifest;
mod moved;
mod nearest;
mod origin;
mod pod;
mod print;
mod project;
mod releases;
mod resolution;
mod resolve;
mod schema;
mod shape;
pub mod skew;
mod source;
mod stale;
mod updates;
mod upstream;
mod version;
mod walk;
mod wanted;
mod writable;

pub use architecture::Architecture;
pub use binary::{Binary, BinaryName, Cgo, Compile, GoBuild, GoOutput};
pub use board::{Board, Bus, MAX_ESP_SIZE_MIB, MAX_SLOT_SIZE_MIB, Qemu};
pub use boot::BootProgram;
pub use crates::{Closure, closure};
pub use date::Date;
pub use edit::{set_go_toolchain, set_version};
pub use file::{Content, RootFile};
pub use held::Held;
pub use host_programs::{HostProgram, HostPrograms};
pub use installs::Installs;
pub use kernel::{Kernel, KernelOption, OptionValue};
pub use lock::{
    Blob, CratesLock, DebianPackage, GoLock, GoModule, GoToolchain, Lock, Packages, RustToolchain,
    Toolchains,
};
pub use moved::{Moved, moved, moved_crates, moved_releases};
pub use nearest::nearest;
pub use origin::{Origin, Origins};
pub use pod::{DebianProgram, ImageFrom, Payload, Pod, PodImage};
pub use project::Project;
pub use releases::{Release, Releases};
pub use resolution::Resolution;
pub use resolve::{
    BUILD_MACHINE, buildable, check, makes_programs, resolve, resolve_any, resolve_programs,
};
pub use schema::{FileKind, schema};
pub use skew::Strictness;
pub use source::{Source, SourceKind};
pub use updates::Updates;
pub use upstream::{GoUpstream, KUBERNETES, KernelUpstream, Peg, Upstream, upstream};
pub use version::{Minor, Version};
pub use wanted::{Crate, DebianWish, GoWish, RustWish, Wanted, crates_digest};
pub use writable::{Backing, WritablePath};

use std::collections::BTreeMap;
use std::ops::Deref;

/// What a recipe resolves to, and `L`, which says whether that is pinned: [`Unlocked`] or
/// [`Locked`]. `R` is [`Resolved`] for a node and [`HostPrograms`] for programs that run on the
/// machine that builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<L = Unlocked, R = Resolved> {
    /// All of it. The plan stands for it: `plan.recipe` is `plan.resolved.recipe`.
    pub resolved: R,
    /// [`Unlocked`], or the lock that pins all that is wanted.
    pub lock: L,
}

impl<L, R> Deref for Plan<L, R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.resolved
    }
}

/// Everything that the recipe of a node resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The recipe's name: `qemu-amd64`.
    pub recipe: String,
    /// The version of the node: the recipe's own, or that of its kubelet.
    pub version: String,
    /// The architecture of the node.
    pub architecture: Architecture,
    /// The machine that the node runs on.
    pub board: Board,
    /// The time servers that it asks where its network names none: the recipe's own, or those of
    /// the board.
    pub time_servers: Vec<String>,
    /// What counts up with the holes that are closed: a machine starts none of a lower one than it
    /// has run.
    pub security_epoch: u32,
    /// The kernel and its options.
    pub kernel: Kernel,
    /// What the firmware starts, and what starts the kernel.
    pub boot: BootProgram,
    /// The files of `/bin`, in the order of [`BinaryName::ALL`].
    pub binaries: [Binary; 7],
    /// The rest of the root, in order of path.
    pub files: Vec<RootFile>,
    /// The writable paths that the recipe declares, in order of path.
    pub writable: Vec<WritablePath>,
    /// The static pods, in order of name.
    pub pods: Vec<Pod>,
    /// The image of every pod's sandbox: `localhost/pause:1`.
    pub pause: PodImage,
    /// What the skew policy looks at.
    pub kubernetes: Kubernetes,
    /// The name of the keys that sign the image; none for an unsigned one.
    pub signing: Option<String>,
    /// Where the node gets its updates; none for one that gets none.
    pub updates: Option<Updates>,
    /// What a stick with this node installs; none for a node that stays.
    pub installs: Option<Installs>,
    /// Everything that the lock has to pin.
    pub wanted: Wanted,
    /// Where each resolved value was written.
    pub origins: Origins,
    /// What the user should know of, or act on some day. It never changes what is built.
    pub warnings: Vec<String>,
}

impl Resolved {
    /// Every image that the node carries, each once: those of pods, and that of their sandboxes.
    pub fn images(&self) -> impl Iterator<Item = &PodImage> {
        let images = self.pods.iter().flat_map(|pod| &pod.images).chain([&self.pause]);
        images.map(|image| (&image.name, image)).collect::<BTreeMap<_, _>>().into_values()
    }
}

/// A plan that nothing pins yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlocked;

/// The lock of a plan. It is made by [`Plan::lock`] alone, after it was compared with the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked(Lock);

impl Locked {
    /// The lock itself.
    pub fn get(&self) -> &Lock {
        &self.0
    }
}

/// The versions that have to fit each other, and the exception that the recipe asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// The kubelet's version.
    pub kubelet: Version,
    /// containerd's version.
    pub containerd: Version,
    /// Minors of the API servers that the node must be able to join.
    pub api_servers: Vec<Minor>,
    /// Why the kubelet is not the pegged one.
    pub exception: Option<Exception>,
}

/// A dated leave from the peg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Why.
    pub reason: String,
    /// The last day on which it holds.
    pub until: Date,
}
