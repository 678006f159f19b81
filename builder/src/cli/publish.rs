//! Flags of `osbuild publish`.

use super::{Signing, recipe_name, value};
use crate::plan::Date;
use clap::{Args, Subcommand, value_parser};
use osbuild_aws::Region;
use std::path::PathBuf;

/// The clouds.
#[derive(Debug, Subcommand)]
pub enum Publish {
    /// Publish as an AMI of AWS
    ///
    /// Uploads the non-zero blocks of the disk and registers an AMI whose Secure Boot trusts the
    /// keys that signed it. The same image always becomes the same AMI: after a failure, the same
    /// command continues where it stopped. The result is JSON. Credentials come from the
    /// environment, the files in ~/.aws, a web identity, the container or the instance.
    /// builder/docs/publish-aws.md lists the permissions.
    Aws(PublishAws),
}

/// Flags of `osbuild publish aws`.
#[derive(Debug, Args)]
pub struct PublishAws {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// The region to upload to
    #[arg(long, value_name = "REGION", value_parser = value::<Region>)]
    pub region: Region,
    /// The regions to copy the AMI to
    #[arg(long, value_name = "REGION,…", value_delimiter = ',', value_parser = value::<Region>)]
    pub copy_to: Vec<Region>,
    /// Let these accounts launch it
    #[arg(long, value_name = "ACCOUNT,…", value_delimiter = ',', value_parser = account)]
    pub share: Vec<String>,
    /// Let everybody launch it
    #[arg(long)]
    pub public: bool,
    /// The day from which AWS marks it as deprecated and hides it from others
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub deprecate: Option<Date>,
    /// The owner of the AMI, if several publish in the account: a team, a repository, a stage. It
    /// becomes the tag `osbuild:owner`
    #[arg(long, value_name = "NAME", value_parser = owner)]
    pub owner: Option<String>,
    /// Keep the newest N AMIs of the recipe and owner in each region, and remove the others with
    /// their snapshots
    #[arg(long, value_name = "N", requires = "owner")]
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub prune: Option<u16>,
    /// Change nothing, and print the calls of a first publish, one line of JSON each; with
    /// `--prune`, also look up and print what it would remove
    #[arg(long)]
    pub dry_run: bool,
    /// Allow keys that are for development only
    #[arg(long)]
    pub allow_dev_key: bool,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// The keys to sign with
    #[command(flatten)]
    pub signing: Signing,
}

/// The number of an AWS account.
fn account(text: &str) -> Result<String, String> {
    let is_one = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_one { Ok(text.to_owned()) } else { Err("an AWS account has 12 digits".to_owned()) }
}

/// A tag value that all services of AWS accept, without spaces at its ends.
fn owner(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-=._:/@ ".contains(c);
    let is_one =
        !text.is_empty() && text.len() <= 128 && text.trim() == text && text.chars().all(plain);
    if is_one {
        Ok(text.to_owned())
    } else {
        Err("an owner has 1 to 128 letters, digits, spaces and `+-=._:/@`".to_owned())
    }
}
