//! A recipe, resolved. Everything here is pure: no network, process, clock or environment.
//!
//! [`Project`] holds the files that people write, [`resolve()`] makes a [`Plan`] of them, and a
//! [`Lock`] pins what the plan requires. Only a plan with its lock, [`Plan<Locked>`], can be built:
//! the compiler checks that.
//!
//! | to find | look in |
//! |---|---|
//! | a key of a recipe, a board or a component, and the strict check of a file | `keys` |
//! | how a file inherits from another one | `project` |
//! | how TOML is parsed, and where a value is written | `document` |
//! | the rules from files to a plan | `resolve` |
//! | what a node is made of, and the printed plan | `node`, `print` |
//! | versions of Kubernetes, the peg and the skew policy | `kubernetes` |
//! | what a plan requires, the lock, and its sources | `lock` |
//! | the packages of a node, and the components that hold them | `packages` |
//! | which upstream versions a recipe names, and how they are changed | `upstream` |

mod architecture;
#[macro_use]
mod keys;
mod document;
mod kubernetes;
mod lock;
mod node;
mod packages;
mod print;
mod project;
mod resolve;
mod upstream;

pub use architecture::Architecture;
pub use document::{Origin, Origins, nearest, node_document_problems, parse_as};
pub use keys::{FileKind, schema};
pub use kubernetes::skew::{self, Strictness};
pub use kubernetes::{Date, Exception, Kubernetes, Minor, Release, Releases, Version};
pub use lock::{
    Blob, CargoLock, Closure, Crate, CrateSize, CratesLock, DebianPackage, DebianRelease,
    DebianRequirement, GoLock, GoModule, GoRequirement, GoToolchain, Lock, Moved, Packages, Pins,
    PreviousLock, Purl, Requirements, RustRequirement, RustToolchain, Source, SourceKind,
    Toolchains, crates_digest, moved, moved_crates, moved_releases,
};
pub use node::{
    Api, Backing, BinaryName, Board, BootProgram, Bus, Cgo, Compile, Content, DebianProgram,
    DebugAccess, FilePackage, GoComponent, GoOutput, HostComponent, HostPrograms, ImageFrom,
    Installs, Kernel, KernelOption, MAX_COMMAND_LINE, MAX_ESP_SIZE_MIB, MAX_SLOT_SIZE_MIB,
    NodeSettings, NodeSpec, OptionValue, Payload, Pod, PodImage, ProgramComponent, Qemu, RootFile,
    Signing, Updates, Volumes, WritablePath,
};
pub use packages::Holders;
pub use project::{Overrides, Project};
pub use resolve::{
    BUILD_MACHINE, buildable, check, makes_programs, resolve, resolve_any, resolve_programs,
    untaken,
};
pub use upstream::{
    GoUpstream, KUBERNETES, KernelUpstream, Peg, Upstream, set_go_toolchain, set_version, upstream,
    version_lines,
};

use std::fmt::Debug;
use std::ops::Deref;

/// A resolved recipe.
///
/// `L` is [`Unlocked`] or [`Locked`]. `P` is the product of the recipe: a [`NodeSpec`], or
/// [`HostPrograms`]. The plan dereferences to it: `plan.board` is `plan.product.board`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<L: LockState = Unlocked, P = NodeSpec<L>> {
    /// The recipe's name: `qemu-amd64`.
    pub recipe: String,
    /// The architecture of the node, or of the build machine.
    pub architecture: Architecture,
    /// The product of the recipe.
    pub product: P,
    /// Everything that the lock must pin.
    pub requirements: Requirements,
    /// Where each value is written, by its name in [`Plan::print`].
    pub origins: Origins,
    /// The warnings: problems that exist now, or from a later day on. They never change the build.
    pub warnings: Vec<String>,
    /// [`Unlocked`], or the lock that pins the requirements.
    pub lock: L,
}

impl<L: LockState, P> Deref for Plan<L, P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.product
    }
}

/// Whether a plan is locked.
pub trait LockState: Clone + Debug + PartialEq + Eq {
    /// The locked modules of a Go component.
    type GoModules: Clone + Debug + PartialEq + Eq;
    /// A locked Debian package.
    type Package: Clone + Debug + PartialEq + Eq;
}

/// A plan that is not locked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlocked;

impl LockState for Unlocked {
    type GoModules = ();
    type Package = ();
}

/// The lock of a plan. Only [`Plan::lock`] makes it, after comparing the lock with the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked(Lock);

impl Locked {
    /// The lock itself.
    pub fn get(&self) -> &Lock {
        &self.0
    }
}

impl LockState for Locked {
    type GoModules = GoLock;
    type Package = DebianPackage;
}

/// The product of a recipe: a [`NodeSpec`] or [`HostPrograms`].
pub trait Product<L: LockState> {
    /// Its version; `None` for programs, which each have their own.
    fn version(&self) -> Option<&str>;
    /// The keys that its recipe names.
    fn default_signing(&self) -> Option<&Signing>;
    /// Every component that is compiled from a Go module, each once, in order of name and version.
    fn go_components(&self) -> Vec<&GoComponent<L>>;
    /// Prints its sections of `plan.toml`.
    fn print_sections(&self, page: &mut print::Page<'_>);
}

/// A product in a plan that is not locked.
pub trait Lockable: Product<Unlocked> {
    /// The same with each locked input where it is used.
    type Locked: Product<Locked>;

    /// Puts the modules of each Go component and each package with files into it.
    fn lock(self, pins: &Pins<'_>) -> Self::Locked;
}

/// A plan that is not locked, whatever its recipe makes.
pub trait AnyPlan {
    /// The recipe's name.
    fn recipe(&self) -> &str;
    /// The architecture of the product.
    fn architecture(&self) -> Architecture;
    /// Everything that the lock must pin.
    fn requirements(&self) -> &Requirements;
    /// The warnings for the user.
    fn warnings(&self) -> &[String];
    /// Where each value is written, by its name in [`AnyPlan::print`].
    fn origins(&self) -> &Origins;
    /// The plan as TOML, as `osbuild plan` shows it. Equal plans print equally.
    fn print(&self) -> String;
}

impl<P: Product<Unlocked>> AnyPlan for Plan<Unlocked, P> {
    fn recipe(&self) -> &str {
        &self.recipe
    }

    fn architecture(&self) -> Architecture {
        self.architecture
    }

    fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn origins(&self) -> &Origins {
        &self.origins
    }

    fn print(&self) -> String {
        Plan::print(self)
    }
}
