//! Verbs and flags, in the order of the pipeline. [`crate::verbs`] runs them.

mod cluster;
mod flash;
mod keys;
mod node;
mod publish;
mod recipes;
mod release;
mod results;
mod run;
mod sources;
mod verify;

pub use cluster::Cluster;
pub use flash::Flash;
pub use keys::{Keys, Rotated, Terms};
pub use node::Node;
pub use publish::{Publish, PublishAws};
pub use recipes::Recipes;
pub use release::{Release, Rollout};
pub use results::Results;
pub use run::{Run, Until};
pub use sources::Sources;
pub use verify::Verify;

use crate::engine::remote::Mode;
use crate::error::{Error, Problem};
use crate::plan::FileKind;
use crate::produce::copy::Format;
use crate::report::Color;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use std::path::PathBuf;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  cargo osbuild run qemu-amd64                   build a node, boot it, show its console
  cargo osbuild check                            find all mistakes in recipes, boards and components
  cargo osbuild lock edge                        pin the inputs of recipes/edge.toml in edge.lock
  cargo osbuild build edge --json                build it, for a script
  cargo osbuild build --all                      build all recipes, each step once
  cargo osbuild sources export edge ../sources   keep every input, before Debian drops one
  cargo osbuild flash edge --device /dev/sdb     erase a stick and write the image to it
  cargo osbuild update kubelet                   update the kubelet in every recipe

Files:
  recipes/*.toml, recipes/*.lock   recipes, and the inputs that they pin
  out/RECIPE/                      image.raw, node.efi, initramfs.cpio, plan.toml, logs/
  ~/.cache/osbuild                 everything fetched or compiled; XDG_CACHE_HOME moves it";

/// Builds shell-less, immutable Kubernetes node images from one TOML recipe.
///
/// A recipe in `recipes/` names a board, a kernel configuration, the seven host binaries and the
/// static pods of a node. Its lock beside it pins every input by digest. `osbuild build` compiles
/// all of it from source in a sandbox without network and makes a disk image that boots under UEFI;
/// `osbuild run` boots it.
///
/// stdout gets only the result: a path, or JSON with `--json`. Everything else goes to stderr.
///
/// Exit codes: 0 success, 1 the build failed or the node did not become ready, 2 wrong command line
/// or recipe, 3 the lock is out of date or a source is gone, 4 a digest or signature does not
/// match, 130 interrupted.
#[derive(Debug, Parser)]
#[command(
    name = "osbuild",
    bin_name = "cargo osbuild",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(after_long_help = EXAMPLES)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
    /// Flags that every verb has.
    #[command(flatten)]
    pub common: Common,
}

/// The hint where `--set` cannot do what is wanted, because locks pin what recipes themselves need.
pub const INHERIT_AND_LOCK: &str =
    "write the key in a recipe that inherits from this one, and lock that";

impl Verb {
    /// Whether `--set` has an effect on what it does. It has none on locks, which pin what recipes
    /// themselves need.
    pub fn reads_recipes(&self) -> bool {
        matches!(
            self,
            Verb::Check { .. }
                | Verb::Plan { .. }
                | Verb::Skew { .. }
                | Verb::Build { .. }
                | Verb::Sign { .. }
                | Verb::Release(_)
                | Verb::Results(Results::Export { .. })
                | Verb::Publish(_)
                | Verb::Cluster(_)
                | Verb::Run(_)
                | Verb::Flash(_)
                | Verb::Summary { .. }
                | Verb::Verify(_)
        )
    }
}

/// Flags that every verb has.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Flags of every verb")]
pub struct Common {
    /// Write the result to stdout as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Never use the network: an input that is not in the store is an error
    #[arg(long, global = true)]
    pub offline: bool,
    /// A cache of results that other machines share, which may also execute steps:
    /// grpc[s]://HOST:PORT[/INSTANCE] for the Remote Execution API, http[s]://HOST:PORT[/PATH]
    /// for a plain cache such as bazel-remote [default: `url` of `[remote]` in
    /// ~/.config/osbuild/config.toml, which also names certificates and tokens] [env:
    /// OSBUILD_REMOTE]
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub remote: Option<String>,
    /// The mode in which builds use that server [default: `mode` of `[remote]`, or `cache`]
    #[arg(long, global = true, value_name = "MODE", hide_short_help = true)]
    #[arg(env = "OSBUILD_REMOTE_MODE", hide_env_values = true)]
    pub remote_mode: Option<RemoteMode>,
    /// Set a recipe's key with a single value, in every recipe of the command that can have it:
    /// version=1.35.8-2, kernel.groups.ipsec=true. The plan and a release's provenance show it
    #[arg(long, global = true, value_name = "KEY=VALUE", hide_short_help = true)]
    pub set: Vec<String>,
    /// Number of processors that steps may use [default: all]
    #[arg(long, short, global = true, value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Show only errors and warnings
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also show steps whose results come from the store
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// When to use colors
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
    /// Answer yes to every question
    #[arg(long, short, global = true)]
    pub yes: bool,
    /// Project folder [default: the one around the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

/// The mode in which a build uses a shared cache, or a service that executes steps.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RemoteMode {
    /// Do not use it
    Off,
    /// Read results from it
    Cache,
    /// Read results from it, and give it those of the steps that ran here
    CacheWrite,
    /// Read results from it, and have it execute all other steps
    Execute,
}

impl From<RemoteMode> for Mode {
    fn from(mode: RemoteMode) -> Self {
        match mode {
            RemoteMode::Off => Mode::Off,
            RemoteMode::Cache => Mode::Cache,
            RemoteMode::CacheWrite => Mode::CacheWrite,
            RemoteMode::Execute => Mode::Execute,
        }
    }
}

/// When to use colors.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl From<When> for Color {
    fn from(when: When) -> Self {
        match when {
            When::Auto => Color::Auto,
            When::Always => Color::Always,
            When::Never => Color::Never,
        }
    }
}

/// The upper limit of a flag in MiB, 1 PiB: in bytes it still fits a `u64`.
const MAX_MIB: u64 = 1 << 30;

/// The upper limit of a flag in GiB, 1 EiB.
const MAX_GIB: u64 = 1 << 30;

/// A recipe's name, from the name or from its path, which a shell can complete.
fn recipe_name(text: &str) -> Result<String, std::convert::Infallible> {
    let file = text
        .strip_prefix("./")
        .unwrap_or(text)
        .strip_prefix("recipes/")
        .and_then(|file| file.strip_suffix(".toml"));
    Ok(file.unwrap_or(text).to_owned())
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check recipes, boards and components, and list all problems
    Check {
        /// The recipes [default: everything in the project]
        #[arg(value_name = "RECIPE", value_parser = recipe_name)]
        recipes: Vec<String>,
    },
    /// Print the resolved plan of a recipe, with the line of each value that one line sets
    Plan {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
    },
    /// Show the API servers that the node can join, and until when
    Skew {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
    },
    /// Pin every input of recipes by digest
    Lock {
        /// The recipes
        #[command(flatten)]
        recipes: Recipes,
    },
    /// Update locked inputs to the newest versions that the recipes allow, in every recipe with a
    /// lock
    ///
    /// A component and the Go toolchain move to the newest patch of their minor, the kubelet to
    /// that of the minor two behind the newest Kubernetes, a Debian package to the version in the
    /// archive. Versions in recipes are edited in place. An update of the kubelet also updates the
    /// table of Kubernetes releases.
    Update {
        /// A component, a Debian package, `toolchain`, or `crates` (with `cargo update`, only when
        /// named) [default: all but `crates`]
        #[arg(value_name = "COMPONENT")]
        names: Vec<String>,
    },
    /// Export the locked inputs of a recipe to a folder, or import them from there
    #[command(subcommand)]
    Sources(Sources),
    /// Export the results of recipes' steps to a folder or a registry, or import them from there
    #[command(subcommand)]
    Results(Results),
    /// Make, show, enroll, rotate and revoke the keys that machines trust
    #[command(subcommand)]
    Keys(Keys),
    /// Build the images of recipes, out/RECIPE/image.raw
    ///
    /// Fetches the locked inputs and compiles whatever the store lacks: the first build takes hours
    /// on a small machine, the next one seconds. A step that several recipes have runs once. Never
    /// changes a lock. The logs of all steps are in out/RECIPE/logs/. stdout gets a line for each
    /// recipe: those of images in the order of the command line, then those of programs.
    Build {
        /// The recipes
        #[command(flatten)]
        recipes: Recipes,
        /// Build from a folder that `osbuild sources export` wrote, and from nothing else
        #[arg(long, value_name = "DIR")]
        sources: Option<PathBuf>,
        /// Run steps again although the store has their results, and fail if a result differs: all
        /// steps, or those whose names start with one of these words, such as `kernel,layer`
        #[arg(long, value_name = "STEP,…", value_delimiter = ',', num_args = 0..)]
        #[arg(require_equals = true)]
        rebuild: Option<Vec<String>>,
        /// Also convert the image to this format; stdout gets the path of the converted image
        #[arg(long, value_name = "FORMAT", default_value = "raw")]
        format: ImageFormat,
        /// The keys to sign with
        #[command(flatten)]
        signing: Signing,
    },
    /// Attach signatures that were made on another machine to a recipe's image
    ///
    /// `osbuild build --unsigned` writes the digests to sign to out/RECIPE/to-sign: files of 32
    /// bytes, SHA-256. Sign each with RSA PKCS#1 v1.5 where the key is, and bring the signatures
    /// back in a folder, under any names: openssl pkeyutl -sign -pkeyopt digest:sha256 -inkey
    /// db.key -in node.efi.sha256 -out node.efi.sig
    Sign {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
        /// The folder with the signatures
        #[arg(long, value_name = "DIR")]
        attach: PathBuf,
        /// The keys in `keys/` that made them; only `db.crt` is read [default: the recipe's]
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Build from a folder that `osbuild sources export` wrote
        #[arg(long, value_name = "DIR")]
        sources: Option<PathBuf>,
    },
    /// Build a recipe and publish it in a channel, in a TUF repository that any web server can
    /// serve
    ///
    /// A release has the UKI, slotboot, the lock, the list of sources, an SBOM (SPDX 2.3) and the
    /// provenance (SLSA 1.0). An unsupported Kubernetes and an expired exception are errors here.
    /// The same inputs, keys and `--as-of` give the same bytes.
    Release(Release),
    /// Build a recipe's image and publish it to a cloud
    #[command(subcommand)]
    Publish(Publish),
    /// Make the files with which nodes become a cluster of their own, and its administrator's
    /// kubeconfig
    ///
    /// The recipe's node makes itself the control plane: it has the pod `control-plane`, as
    /// `control-plane-amd64`. FOLDER gets `first/`, the files for that node, with kubeadm's
    /// configuration and the cluster's keys; `planes/`, those for further nodes of the control
    /// plane; `others/`, those for all other nodes; and `administrator.kubeconfig`, whose path
    /// stdout gets. Only you may read them. `osbuild run --files` and an installer's stick place
    /// such files on a node.
    Cluster(Cluster),
    /// Build a recipe's image, boot it under QEMU and show its console
    ///
    /// A recipe with the pod `control-plane` makes a cluster with the files of out/RECIPE/cluster,
    /// unless `--files` has kubeadm's configuration. Port 6443 is forwarded, and stdout gets the
    /// path of the administrator's kubeconfig once the node is Ready in its cluster.
    Run(Run),
    /// Build a recipe's image and write it to a disk of this machine: a USB stick, a card, a drive
    ///
    /// Without `--device` it builds nothing and lists the disks that fit. The disk is erased: the
    /// image is written, read back and compared, the partition table is fitted to the disk, and the
    /// disk gets its own identifiers. After a power cut nothing boots from the disk, and flashing
    /// again works.
    Flash(Flash),
    /// Show the contents of an image, a UKI or an initramfs
    Inspect {
        /// The file
        file: PathBuf,
    },
    /// Show the differences between two images, UKIs, initramfs or releases
    ///
    /// Compares versions, kernel options, the command line, pods, files, sizes, partitions and
    /// slots, and the SBOMs of releases, but not the contents of DATA. Exit codes: 0 no difference,
    /// 1 differences, 2 or 4 a file is unreadable or damaged.
    Diff {
        /// The first: a file, the folder of a release, or FOLDER@VERSION or FOLDER@RECIPE_VERSION
        /// if the folder has several
        a: PathBuf,
        /// The second
        b: PathBuf,
    },
    /// Print a Markdown report on the last builds of recipes, for a pull request
    ///
    /// Lists sizes, version changes, the growth of each component since the last release, and the
    /// API servers that the node can join. Builds nothing. With `--json` each recipe is a line.
    Summary {
        /// The recipes
        #[command(flatten)]
        recipes: Recipes,
        /// Compare with the recipe's last release in a repository, FOLDER@VERSION, an image or a
        /// UKI [default: out/RECIPE/release, if it exists]
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
    },
    /// Verify an image, a UKI, an initramfs with its `.sig` next to it, a disk or a folder of
    /// releases
    ///
    /// Checks signatures, the validity of certificates and revocations; on a disk both copies of
    /// the partition table, each bootable slot, and that the ESP has only slotboot; that /bin has
    /// exactly the seven binaries and every file matches the inventory; that the version in the UKI
    /// is that of its slot or release. Prints each check, and exits with 4 if one fails. Needs no
    /// project, network or private key.
    Verify(Verify),
    /// Check or sign the document in which a node's owner configures it, or print its JSON Schema
    #[command(subcommand)]
    Node(Node),
    /// Show the tools that building and running need, and which are installed
    Doctor {
        /// Install the missing tools
        #[arg(long)]
        fix: bool,
    },
    /// Print the JSON Schema of recipes, boards or components, for use in an editor
    Schema {
        /// The kind of file
        #[arg(default_value = "recipe")]
        kind: SchemaKind,
    },
    /// Remove entries from the store that no build has used for 14 days
    ///
    /// Entries that a running build may use stay. Builds themselves limit the store to
    /// OSBUILD_STORE_MAX_GIB [default: 50; 0 for no limit] once a day: they remove the least
    /// recently used entries first, and none that was used within a day.
    Clean {
        /// Remove everything: the next build fetches and compiles all of it again. The addresses of
        /// nodes on shared networks stay
        #[arg(long)]
        all: bool,
        /// Remove the least recently used entries until the store has at most N GiB, also those of
        /// today
        #[arg(long, value_name = "N", conflicts_with = "all")]
        #[arg(value_parser = value_parser!(u64).range(0..=MAX_GIB))]
        max_gib: Option<u64>,
        /// Read the whole store, and remove damaged entries
        ///
        /// A build checks every file that it reads, but not unpacked toolchains and sandbox roots:
        /// only this flag does.
        #[arg(long, conflicts_with_all = ["all", "max_gib"])]
        damaged: bool,
    },
    /// Print the completions of `osbuild` for a shell
    ///
    /// For bash: osbuild completions bash >~/.local/share/bash-completion/completions/osbuild
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Formats of disk images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageFormat {
    /// The disk's bytes, out/RECIPE/image.raw
    #[value(name = "raw")]
    Raw,
    /// The same, compressed with zstd
    #[value(name = "raw.zst")]
    RawZst,
    /// QEMU's format, without the zeros
    #[value(name = "qcow2")]
    Qcow2,
}

impl From<ImageFormat> for Format {
    fn from(format: ImageFormat) -> Self {
        match format {
            ImageFormat::Raw => Format::Raw,
            ImageFormat::RawZst => Format::RawZst,
            ImageFormat::Qcow2 => Format::Qcow2,
        }
    }
}

/// Parses a value, with the errors of its type.
fn value<T: FromStr<Err: Into<Error>>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| match &error.into().problems[0] {
        Problem { message, hint: Some(hint), .. } => format!("{message}\nhint: {hint}"),
        Problem { message, .. } => message.clone(),
    })
}

/// The keys to sign an image with.
#[derive(Clone, Debug, Args)]
pub struct Signing {
    /// Sign with these keys of `keys/` [default: the recipe's]
    #[arg(long, value_name = "NAME", conflicts_with = "unsigned")]
    pub key: Option<String>,
    /// Do not sign: the image boots only with Secure Boot off; the digests for `osbuild sign` are
    /// written to out/RECIPE/to-sign
    #[arg(long)]
    pub unsigned: bool,
}

/// The kinds of files that have a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchemaKind {
    /// `recipes/*.toml`
    Recipe,
    /// `boards/*.toml`
    Board,
    /// `components/*/component.toml`
    Component,
}

impl From<SchemaKind> for FileKind {
    fn from(kind: SchemaKind) -> Self {
        match kind {
            SchemaKind::Recipe => FileKind::Recipe,
            SchemaKind::Board => FileKind::Board,
            SchemaKind::Component => FileKind::Component,
        }
    }
}
