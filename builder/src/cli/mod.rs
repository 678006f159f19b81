//! Verbs and flags, in the order of the pipeline. What they do is in [`crate::verbs`].

mod keys;
mod publish;

pub use keys::{Keys, Rotated, Terms};
pub use publish::{Publish, PublishAws};

use crate::error::{Error, Problem};
use crate::plan::{Bus, Date, FileKind};
use crate::produce::copy::Format;
use crate::report::Color;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use osbuild_release::Channel;
use std::path::PathBuf;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  cargo osbuild run qemu-amd64                   build a node, boot it, show its console (Ctrl-A x ends it)
  cargo osbuild check                            every mistake in recipes, boards and components
  cargo osbuild lock edge                        pin what `recipes/edge.toml` needs, in `recipes/edge.lock`
  cargo osbuild build edge --json                build it, for a script
  cargo osbuild sources export edge ../sources   keep every input, before Debian drops one
  cargo osbuild flash edge --device /dev/sdb     put it onto a stick, which loses all that was on it
  cargo osbuild update kubelet                   move every recipe's kubelet, and show what moved

Files:
  recipes/*.toml, recipes/*.lock   what nodes are, and what they are made of
  out/RECIPE/                      image.raw, node.efi, initramfs.cpio, plan.toml, logs/
  ~/.cache/osbuild                 everything that was fetched or compiled; XDG_CACHE_HOME moves it";

/// Builds shell-less, immutable Kubernetes node images from one TOML recipe.
///
/// A recipe in `recipes/` names a board, a kernel configuration, the seven host binaries and the
/// static pods of a node. Its lock beside it pins every input by digest. `osbuild build` compiles
/// all of it from source in a sandbox without network and makes a disk image that boots under UEFI;
/// `osbuild run` boots it.
///
/// stdout carries only data: the path of what was made, or JSON with `--json`. Everything else goes
/// to stderr.
///
/// Exit codes: 0 done, 1 the build failed or the node did not get ready, 2 the command line or a
/// recipe is wrong, 3 the lock is out of date or a source is gone, 4 a digest does not match, 130
/// interrupted.
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
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Flags that every verb has.
    #[command(flatten)]
    pub common: Common,
}

/// Flags that every verb has.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Flags of every verb")]
pub struct Common {
    /// Write the result to stdout as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Never use the network: what is not in the store is an error
    #[arg(long, global = true)]
    pub offline: bool,
    /// How many processors steps may use [default: all]
    #[arg(long, short, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Show errors and warnings alone
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Show steps that were found in the store too
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// Whether to colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
    /// Answer every question with yes
    #[arg(long, short, global = true)]
    pub yes: bool,
    /// The folder of the project [default: the one that the current folder is in]
    #[arg(long, global = true, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

/// When to colour.
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

/// The most MiB that a flag takes, 1 PiB: no machine has as much, and a number of bytes still holds
/// it.
const MOST_MIB: u64 = 1 << 30;

/// The most GiB that a flag takes, 1 EiB.
const MOST_GIB: u64 = 1 << 30;

/// One of the names of a bus.
fn bus() -> impl TypedValueParser<Value = Bus> {
    PossibleValuesParser::new(Bus::NAMES).try_map(|name| Bus::named(&name).ok_or("no such bus"))
}

/// A recipe by its name, or by the path that a shell completes.
fn recipe_name(text: &str) -> Result<String, std::convert::Infallible> {
    let file = text
        .strip_prefix("./")
        .unwrap_or(text)
        .strip_prefix("recipes/")
        .and_then(|file| file.strip_suffix(".toml"));
    Ok(file.unwrap_or(text).to_owned())
}

/// A host name of at most 32 bytes: QEMU's DHCP server cuts off what is longer.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    match text.len() {
        1..=32 if is_name => Ok(text.to_owned()),
        _ => Err("a host name has 1 to 32 letters, digits, `-` and `.`".to_owned()),
    }
}

/// What osbuild can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check recipes, boards and components, all problems at once
    Check {
        /// The recipe; without one, everything in the project
        #[arg(value_parser = recipe_name)]
        recipe: Option<String>,
    },
    /// Print what a recipe resolves to, and where each value was written
    Plan {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
    },
    /// Show which API servers the node can join, and until when
    Skew {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
    },
    /// Pin every input of a recipe by digest
    Lock {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
    },
    /// Move what locks pin to the newest versions that the recipes' rules allow, in every recipe
    /// that has a lock
    ///
    /// A component moves to the newest patch of its minor, the kubelet to that of the minor two
    /// behind the newest Kubernetes, the Go toolchain to the newest patch of its minor, a Debian
    /// package to what the archive has. Versions in recipes are rewritten in place. The table of
    /// Kubernetes' releases is brought up to date whenever the kubelet may move.
    Update {
        /// What may move: a component, a Debian package, `toolchain`, or `crates` (by `cargo
        /// update`, and only when named) [default: all but `crates`]
        #[arg(value_name = "COMPONENT")]
        names: Vec<String>,
    },
    /// Keep the locked inputs of a recipe in a folder, by digest, or take them from there
    #[command(subcommand)]
    Sources(Sources),
    /// Make, show, enroll, rotate and revoke the keys by which machines know whose image they start
    #[command(subcommand)]
    Keys(Keys),
    /// Build a recipe's image, out/RECIPE/image.raw
    ///
    /// Fetches what the lock names and compiles what the store does not have yet: hours the first
    /// time on a small machine, seconds after that. Never changes the lock. The logs of all steps
    /// are in out/RECIPE/logs/.
    Build {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
        /// Build from a folder that `osbuild sources export` wrote, with every registry cut off
        #[arg(long, value_name = "DIR")]
        sources: Option<PathBuf>,
        /// Run steps again although their results are known, and fail when one gives other bytes:
        /// all of them, or those whose names begin with one of these words, such as `kernel,layer`
        #[arg(long, value_name = "STEP,…", value_delimiter = ',', num_args = 0.., require_equals = true)]
        rebuild: Option<Vec<String>>,
        /// Leave a copy of the image in this format too, for another host; its path is what stdout
        /// gets
        #[arg(long, value_name = "FORMAT", default_value = "raw")]
        format: ImageFormat,
        /// Who signs it
        #[command(flatten)]
        signing: Signing,
    },
    /// Put signatures into a recipe's image that were made elsewhere, on a machine without a
    /// network
    ///
    /// `osbuild build --unsigned` leaves what has to be signed in out/RECIPE/to-sign: files of 32
    /// bytes, SHA-256. Sign each of them there, by RSA PKCS#1 v1.5, and bring the signatures back
    /// in a folder, under any names: openssl pkeyutl -sign -pkeyopt digest:sha256 -inkey db.key -in
    /// node.efi.sha256 -out node.efi.sig
    Sign {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
        /// The folder with the signatures
        #[arg(long, value_name = "DIR")]
        attach: PathBuf,
        /// Whose they are: these keys of `keys/`, of which only `db.crt` is read [default: the
        /// recipe's]
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Build from a folder that `osbuild sources export` wrote
        #[arg(long, value_name = "DIR")]
        sources: Option<PathBuf>,
    },
    /// Build a recipe and publish it in a channel, in a TUF repository that any web server can
    /// serve
    ///
    /// Beside the UKI and slotboot, a release has the lock, the list of its sources, an SBOM (SPDX
    /// 2.3) and its provenance (SLSA 1.0). A Kubernetes without support and an exception that has
    /// run out are errors here. The same inputs, keys and `--as-of` give the same bytes.
    Release(Release),
    /// Build a recipe's image and publish it where machines are rented
    #[command(subcommand)]
    Publish(Publish),
    /// Build a recipe's image, boot it under QEMU and show its console
    Run(Run),
    /// Build a recipe's image and put it onto a disk of this machine: a stick, a card, a drive in a
    /// bay
    ///
    /// Without `--device` it builds nothing, and lists the disks that fit. Writes only what is not
    /// zero, reads all of it back and compares, fits the partition table to the disk, and gives the
    /// disk identifiers of its own. All that was on the disk is lost. If the power fails meanwhile,
    /// nothing boots from it, and flashing again works.
    Flash(Flash),
    /// Show what is in an image, a UKI or an initramfs
    Inspect {
        /// The file
        file: PathBuf,
    },
    /// Show what differs between two images, UKIs, initramfs or releases
    ///
    /// Versions, kernel options, the command line, pods, files, parts by size, partitions and
    /// slots; of releases the entries of the SBOM too. DATA is not looked into. Exit code 0 if
    /// nothing differs, 1 if something does, 2 or 4 if a file cannot be read or is not what it says
    /// of itself.
    Diff {
        /// The first: a file, the folder of a release, or FOLDER@VERSION or FOLDER@RECIPE_VERSION
        /// if that has more than one
        a: PathBuf,
        /// The second
        b: PathBuf,
    },
    /// Write a report on what a recipe's last build has left, in Markdown, for a pull request
    ///
    /// Sizes, versions that moved, each component's size against the last release, and the API
    /// servers that the node can join. Builds nothing.
    Summary {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
        /// What to compare with: the folder of a repository, for the recipe's last release there,
        /// FOLDER@VERSION, an image, a UKI [default: out/RECIPE/release, if it is there]
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
    },
    /// Verify what somebody signed: an image, a UKI, an initramfs with its `.sig` beside it, a
    /// disk, the folder of a release
    ///
    /// Looks at the signatures, their certificates' days, what is revoked; of a disk at both copies
    /// of the partition table, at each slot that can be booted, and whether the ESP has anything
    /// but slotboot; whether /bin has exactly the seven binaries, and all files are those that the
    /// inventory lists; whether the version in the UKI is that of its slot or of its release. Says
    /// what it found of each, and ends with exit code 4 if anything is wrong. Needs no project, no
    /// network and no private key.
    Verify(Verify),
    /// Show what this machine needs and has, for building and running
    Doctor {
        /// Install what is missing
        #[arg(long)]
        fix: bool,
    },
    /// Print the JSON Schema of recipes, boards or components, for an editor
    Schema {
        /// Which of them
        #[arg(default_value = "recipe")]
        kind: SchemaKind,
    },
    /// Remove from the store what no build of the last 14 days used
    ///
    /// What a build that runs may use stays. Builds themselves see to it, once a day, that the
    /// store takes no more than OSBUILD_STORE_MAX_GIB [default: 50; 0 for no limit]: what was used
    /// longest ago goes, and what was used within a day stays.
    Clean {
        /// Remove everything, so that the next build fetches and compiles all of it again
        #[arg(long)]
        all: bool,
        /// Remove what was used longest ago, until the store takes at most so many GiB of disk
        #[arg(long, value_name = "N", conflicts_with = "all", value_parser = clap::value_parser!(u64).range(0..=MOST_GIB))]
        max_gib: Option<u64>,
        /// Read all of the store, and remove what is not what its name says
        ///
        /// A build checks every file that it reads. An unpacked toolchain or sandbox root is
        /// checked by this alone.
        #[arg(long, conflicts_with_all = ["all", "max_gib"])]
        damaged: bool,
    },
    /// Print completions of the program `osbuild` for a shell
    ///
    /// For bash: osbuild completions bash >~/.local/share/bash-completion/completions/osbuild
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What `osbuild sources` can do.
#[derive(Debug, Subcommand)]
pub enum Sources {
    /// Write every locked input of a recipe to DIR/sha256/, and the list of them to
    /// DIR/sources.json
    Export {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
        /// The folder, which may hold an earlier export: what is whole in it is left alone
        folder: PathBuf,
    },
    /// Put every input of an exported folder into the store
    Import {
        /// The folder
        folder: PathBuf,
    },
}

/// Formats of disk images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageFormat {
    /// The disk's bytes, out/RECIPE/image.raw
    #[value(name = "raw")]
    Raw,
    /// The same, compressed by zstd
    #[value(name = "raw.zst")]
    RawZst,
    /// QEMU's own, without the zeros
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

/// A value whose type explains what is wrong with it.
fn value<T: FromStr<Err: Into<Error>>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| match &error.into().problems[0] {
        Problem { message, hint: Some(hint), .. } => format!("{message}\nhint: {hint}"),
        Problem { message, .. } => message.clone(),
    })
}

/// Who signs an image.
#[derive(Clone, Debug, Args)]
pub struct Signing {
    /// Sign with these keys of `keys/` [default: the recipe's]
    #[arg(long, value_name = "NAME", conflicts_with = "unsigned")]
    pub key: Option<String>,
    /// Sign nothing: the image boots only where Secure Boot is off; what `osbuild sign` needs is
    /// left in out/RECIPE/to-sign
    #[arg(long)]
    pub unsigned: bool,
}

/// Flags of `osbuild release`.
#[derive(Debug, Args)]
pub struct Release {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// Which nodes get it: those that follow this channel, `candidate` or `stable`
    #[arg(long, value_name = "CHANNEL", default_value = "candidate")]
    pub channel: Channel,
    /// The folder of the repository; what is in it stays, and gets a higher version [default:
    /// out/RECIPE/release]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Sign with these keys of `keys/` [default: the recipe's]
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Sign it although the keys are for development only
    #[arg(long)]
    pub allow_dev_key: bool,
    /// The day of the release [default: today]
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub as_of: Option<Date>,
    /// For how many days nodes believe that there is nothing newer; sign again before, by
    /// `--promote`
    #[arg(long, value_name = "N", default_value = "90", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
    /// Take signatures that were made elsewhere from this folder, and leave what else has to be
    /// signed in out/RECIPE/release-to-sign; begin with `osbuild build --unsigned`, and name the
    /// same day by `--as-of` in each round
    #[arg(long, value_name = "DIR")]
    pub attach: Option<PathBuf>,
    /// Build nothing, and publish what was released before as this version, from another channel or
    /// once more
    #[arg(long, value_name = "VERSION", conflicts_with = "sources")]
    pub promote: Option<String>,
    /// Keep the newest N releases of the recipe and those that a channel has, and remove the others
    /// from the repository. The files of one that is removed go with the next release, as nodes may
    /// be fetching them now
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub keep: Option<u16>,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
}

/// Flags of `osbuild verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The file
    pub file: PathBuf,
    /// For the folder of a release: the root of trust, `keys/NAME/root.json` [default: that of
    /// `--key`]
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// For the folder of a release: this channel alone [default: every channel that it has]
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<Channel>,
    /// For the folder of a release: read the files of every release that it has, and not only of
    /// those that the channels have
    #[arg(long)]
    pub all: bool,
    /// For the folder of a release: a folder that remembers what was seen, so that what is older is
    /// refused
    #[arg(long, value_name = "DIR")]
    pub memory: Option<PathBuf>,
    /// A certificate that is trusted, in PEM: `keys/NAME/db.crt`
    #[arg(long, value_name = "FILE")]
    pub cert: Vec<PathBuf>,
    /// Trust what machines with these keys of `keys/` trust, without what is revoked
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Nobody has signed the file yet: look at all but that, before somebody does
    #[arg(long, conflicts_with_all = ["key", "cert", "root"])]
    pub unsigned: bool,
    /// The day on which certificates have to be valid [default: today]
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub as_of: Option<Date>,
    /// Build this recipe again, in out/RECIPE/rebuilt, and compare byte for byte; signatures are
    /// set aside. What the store has of its steps is used, and named: without `--rebuild`, the
    /// machine that built the file compares that with its own cache
    #[arg(long, value_name = "RECIPE", value_parser = recipe_name)]
    pub against: Option<String>,
    /// Run every step of it again, whatever the store has
    #[arg(long, requires = "against")]
    pub rebuild: bool,
    /// Build it from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR", requires = "against")]
    pub sources: Option<PathBuf>,
    /// The file is the disk of a node that has run: set aside what it writes, which is the state of
    /// its slots, DATA, and the other slot
    #[arg(long, requires = "against")]
    pub has_run: bool,
}

/// Flags of `osbuild flash`.
#[derive(Debug, Args)]
pub struct Flash {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// The disk, a whole one: `/dev/sdb`, `/dev/disk/by-id/usb-…`. One that is fixed, mounted or
    /// has this machine's system has to be named twice
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<PathBuf>,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Who signs the image
    #[command(flatten)]
    pub signing: Signing,
}

/// Flags of `osbuild run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// End once this is reached, with exit code 0
    #[arg(long, value_name = "WHAT")]
    pub until: Option<Until>,
    /// Give up after this many seconds without it
    #[arg(long, value_name = "SECONDS", default_value = "300", requires = "until")]
    pub timeout: u64,
    /// Forward a TCP port of this machine's loopback to the node
    #[arg(long, value_name = "HOST:NODE")]
    pub forward: Vec<String>,
    /// What the network of the machine speaks. Ports are forwarded by IPv4
    #[arg(long, value_name = "WHAT", default_value = "both")]
    pub network: Network,
    /// Have the network's DHCP server give this host name to the node [default: none]
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub hostname: Option<String>,
    /// Memory in MiB [default: the board's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=MOST_MIB))]
    pub memory: Option<u64>,
    /// Virtual CPUs [default: the board's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    pub cpus: Option<u32>,
    /// Size of the disk in MiB [default: the image's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub disk_size: Option<u64>,
    /// What the disk is connected to [default: the board's]
    #[arg(long, value_parser = bus())]
    pub bus: Option<Bus>,
    /// Keep what the node writes, in `out/<recipe>/disk.raw`, and go on from there the next time,
    /// also after a build, which is not put onto it
    #[arg(long)]
    pub keep: bool,
    /// The UEFI firmware to boot with
    #[arg(long, value_name = "FILE")]
    pub firmware: Option<PathBuf>,
    /// Download firmware when this machine has none
    #[arg(long, conflicts_with = "firmware")]
    pub download_firmware: bool,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Who signs the image
    #[command(flatten)]
    pub signing: Signing,
    /// Boot with Secure Boot off, although the image is signed
    #[arg(long)]
    pub insecure: bool,
    /// Boot on firmware without keys, which starts everything until it is given some, as a stick
    /// can. With `--keep`, on firmware with those that it was given before
    #[arg(long, conflicts_with_all = ["insecure", "trust"])]
    pub setup_mode: bool,
    /// Let the firmware trust these keys of `keys/`, and not those that signed the image
    #[arg(long, value_name = "NAME", conflicts_with = "insecure")]
    pub trust: Option<String>,
}

/// What the network of a machine can speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Network {
    /// IPv4 by DHCP, and IPv6 by a router that advertises itself
    Both,
    /// IPv4 alone
    Ipv4,
    /// IPv6 alone
    Ipv6,
}

/// What a run can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The kubelet is healthy and every declared pod runs
    Ready,
}

/// What has a schema.
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
