//! `osbuild run`

use super::{MAX_MIB, Signing, recipe_name, value};
use crate::plan::Bus;
use crate::ship::vm::machine::Forward;
use crate::ship::vm::network::{MAX_NAME, Network, Protocols, is_name};
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, Error, ValueEnum, value_parser};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Flags of `osbuild run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// Exit with 0 once the node is in this state
    #[arg(long, value_name = "WHAT")]
    pub until: Option<Until>,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", requires = "until")]
    pub timeout: u64,
    /// The node's name on this machine: its host name by DHCP, and part of the names of its kept
    /// disk and its console log. Nodes with different names run at the same time
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    pub name: Option<String>,
    /// Place the files of this folder on the node's disk before it boots. The folder is laid out
    /// like the node's root, as in `DIR/etc/osbuild/node.toml`. The files belong to root and keep
    /// their modes
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Check this node document, and give it to the node as its `/etc/osbuild/node.toml` before it
    /// boots
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
    /// Forward a TCP port of this machine's loopback to the node. ADDRESS is one of 127.0.0.0/8
    #[arg(long, value_name = "[ADDRESS:]HOST:NODE", value_parser = value::<Forward>)]
    pub forward: Vec<Forward>,
    /// `both`, `ipv4` or `ipv6`: a network of the node's own with these protocols. Any other name,
    /// as in `lab` or `lab:ipv6`: a network for several nodes, which reach each other. This machine
    /// is 10.0.2.2 on both kinds. Ports are forwarded over IPv4
    #[arg(long, value_name = "NETWORK", default_value = "both", value_parser = NetworkParser)]
    #[arg(hide_possible_values = true)]
    pub network: Network,
    /// The host name that the network's DHCP server gives to the node [default: that of `--name`]
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub hostname: Option<String>,
    /// Memory in MiB [default: the board's]
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(64..=MAX_MIB))]
    pub memory: Option<u64>,
    /// Virtual CPUs [default: the board's]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=255))]
    pub cpus: Option<u32>,
    /// Size of the disk in MiB [default: the image's]
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(1..=MAX_MIB))]
    pub disk_size: Option<u64>,
    /// The bus of the disk [default: the board's]
    #[arg(long, value_parser = bus())]
    pub bus: Option<Bus>,
    /// Keep the disk of the node in `out/<recipe>/disk.raw`, or `disk-NAME.raw` with `--name`, and
    /// boot from it the next time. A later build does not change it
    #[arg(long)]
    pub keep: bool,
    /// The UEFI firmware to boot with
    #[arg(long, value_name = "FILE")]
    pub firmware: Option<PathBuf>,
    /// Download firmware if this machine has none
    #[arg(long, conflicts_with = "firmware")]
    pub download_firmware: bool,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// The keys to sign with
    #[command(flatten)]
    pub signing: Signing,
    /// Boot with Secure Boot off, although the image is signed
    #[arg(long)]
    pub insecure: bool,
    /// Boot on firmware without keys, which boots everything until keys are enrolled. With
    /// `--keep`, the firmware keeps enrolled keys
    #[arg(long, conflicts_with_all = ["insecure", "trust"])]
    pub setup_mode: bool,
    /// Let the firmware trust these keys in `keys/` instead of those that signed the image
    #[arg(long, value_name = "NAME", conflicts_with = "insecure")]
    pub trust: Option<String>,
}

/// A state that a run can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The kubelet is healthy and every declared pod runs
    Ready,
}

/// Reads a network. Shells complete the words for protocols, which are not the only values.
#[derive(Clone)]
struct NetworkParser;

impl TypedValueParser for NetworkParser {
    type Value = Network;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        text: &OsStr,
    ) -> Result<Network, Error> {
        StringValueParser::new()
            .try_map(|text| value::<Network>(&text))
            .parse_ref(command, arg, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        Some(Box::new(Protocols::NAMED.into_iter().map(|(name, _)| PossibleValue::new(name))))
    }
}

/// One of the names of a bus.
fn bus() -> impl TypedValueParser<Value = Bus> {
    PossibleValuesParser::new(Bus::NAMES).try_map(|name| Bus::named(&name).ok_or("no such bus"))
}

/// A host name of at most 32 bytes, the limit of QEMU's DHCP server.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    match text.len() {
        1..=MAX_NAME if is_name => Ok(text.to_owned()),
        _ => Err("a host name has 1 to 32 letters, digits, `-` and `.`".to_owned()),
    }
}

fn node_name(text: &str) -> Result<String, String> {
    if is_name(text) {
        return Ok(text.to_owned());
    }
    Err("a node's name has 1 to 32 lower-case letters, digits and inner `-`".to_owned())
}
