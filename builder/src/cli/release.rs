//! Flags of `osbuild release`.

use super::{recipe_name, value};
use crate::plan::Date;
use clap::{Args, value_parser};
use osbuild_release::Channel;
use std::convert::Infallible;
use std::path::PathBuf;

/// Which nodes get a release.
#[derive(Clone, Debug)]
pub enum Rollout {
    /// Those that get it already.
    Keep,
    /// All of them, now.
    All,
    /// No further one.
    Stop,
    /// Those that the file names.
    File(PathBuf),
}

fn rollout(text: &str) -> Result<Rollout, Infallible> {
    Ok(match text {
        "keep" => Rollout::Keep,
        "all" => Rollout::All,
        "stop" => Rollout::Stop,
        file => Rollout::File(file.into()),
    })
}

/// A release, into a new or an existing repository.
#[derive(Debug, Args)]
pub struct Release {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// The channel, `candidate` or `stable`: nodes that follow it get the release
    #[arg(long, value_name = "CHANNEL", default_value = "candidate")]
    pub channel: Channel,
    /// The folder of the repository; earlier releases in it stay [default: out/RECIPE/release]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Sign with these keys of `keys/` [default: the recipe's]
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Allow keys that are for development only
    #[arg(long)]
    pub allow_dev_key: bool,
    /// The day of the release [default: today]
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub as_of: Option<Date>,
    /// For how many days nodes accept the repository as current; renew it with `--promote` before
    #[arg(long, value_name = "N", default_value = "90")]
    #[arg(value_parser = value_parser!(u32).range(1..=3650))]
    pub days: u32,
    /// Attach offline signatures from this folder, and write what else needs a signature to
    /// out/RECIPE/release-to-sign; start with `osbuild build --unsigned`, and use the same
    /// `--as-of` in each round
    #[arg(long, value_name = "DIR")]
    pub attach: Option<PathBuf>,
    /// Build nothing, and publish the earlier release of this version to the channel, or renew it
    #[arg(long, value_name = "VERSION", conflicts_with = "sources")]
    pub promote: Option<String>,
    /// Which nodes get the release, and when: `all`, `stop` for no further node, or a file with
    /// waves and maintenance windows; `keep` is as the channel has it, and `all` for a version that
    /// is new there. `all` and `stop` build nothing, and apply to the version that the channel has
    /// or to that of `--promote`
    #[arg(long, value_name = "FILE", default_value = "keep", value_parser = rollout)]
    pub rollout: Rollout,
    /// Keep the newest N releases of the recipe and those in a channel, and remove the others from
    /// the repository. Their files are removed with the next release, as nodes may be fetching them
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    pub keep: Option<u16>,
    /// Also release results that came from a shared cache, and read it. Without this flag, such
    /// steps run again on this machine
    #[arg(long)]
    pub remote_trusted: bool,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
}
