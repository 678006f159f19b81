//! Flags of `osbuild publish`.

use super::{Signing, recipe_name, value};
use crate::plan::Date;
use clap::{Args, Subcommand};
use osbuild_aws::Region;
use std::path::PathBuf;

/// Where an image can be published.
#[derive(Debug, Subcommand)]
pub enum Publish {
    /// As an AMI of AWS
    ///
    /// Uploads what of the disk is not zero and registers it, with Secure Boot by the keys that
    /// signed it. The same image always becomes the same AMI: run it again after anything went
    /// wrong, and it goes on where it was. The result is JSON. Credentials come from the
    /// environment, the files in ~/.aws, a web identity, the container or the instance.
    /// builder/docs/publish-aws.md has the permissions.
    Aws(PublishAws),
}

/// Flags of `osbuild publish aws`.
#[derive(Debug, Args)]
pub struct PublishAws {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// Where it is uploaded
    #[arg(long, value_name = "REGION", value_parser = value::<Region>)]
    pub region: Region,
    /// Where it is copied to
    #[arg(long, value_name = "REGION,…", value_delimiter = ',', value_parser = value::<Region>)]
    pub copy_to: Vec<Region>,
    /// Let these accounts start it
    #[arg(long, value_name = "ACCOUNT,…", value_delimiter = ',', value_parser = account)]
    pub share: Vec<String>,
    /// Let everybody start it
    #[arg(long)]
    pub public: bool,
    /// The day from which on AWS calls it deprecated, and shows it to others no more
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub deprecate: Option<Date>,
    /// Whose it is, of all who publish in the account: a team, a repository, a stage. It becomes
    /// the tag `osbuild:owner`
    #[arg(long, value_name = "NAME", value_parser = owner)]
    pub owner: Option<String>,
    /// Remove all AMIs of the recipe and the owner but the newest N, in each of the regions, with
    /// their snapshots
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), requires = "owner")]
    pub prune: Option<u16>,
    /// Change nothing, and print each call that would be made if nothing were there yet, a line of
    /// JSON each; with `--prune`, look at AWS and print what it would remove
    #[arg(long)]
    pub dry_run: bool,
    /// Publish it although the keys are for development only
    #[arg(long)]
    pub allow_dev_key: bool,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Who signs it
    #[command(flatten)]
    pub signing: Signing,
}

/// The number of an AWS account.
fn account(text: &str) -> Result<String, String> {
    let is_one = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_one { Ok(text.to_owned()) } else { Err("an account of AWS has 12 digits".to_owned()) }
}

/// A value of a tag by which others can be told apart: what AWS takes in all its services, and no
/// space at its ends.
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
