//! Publishes an image as an AMI: uploads its blocks as a snapshot, registers the snapshot as an
//! image, then copies, shares, deprecates and prunes images. [`osbuild_aws`] makes the calls.
//!
//! This machine keeps no state. A publish that was interrupted finds its work at AWS: the image by
//! its name, which has digests of the disk and of the keys that its firmware trusts, and an
//! incomplete snapshot by its tags, which record its progress.

mod ami;
mod content;
mod copies;
mod prune;
mod snapshot;
mod tags;
mod upload;

pub use content::Content;
pub use tags::{OWNER, tags};
pub use upload::{Failed, send};

use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::plan::{Architecture, Date};
use crate::report::{Outcome, Report};
use osbuild_aws::{Region, RegionalClient, Tag, Transport};
use serde_json::{Map, Value, json};

/// How often a snapshot or an image that fails at AWS is made, before the publish fails.
const ATTEMPTS: usize = 3;

/// How many digits of the disk's SHA-256 the name of an image has.
const NAMED_DIGITS: usize = 12;

/// How many digits of the SHA-256 of the firmware's keys the name of an image has.
const TRUST_DIGITS: usize = 8;

/// The disk to publish.
pub struct Subject {
    /// The disk.
    pub content: Content,
    /// The recipe's name.
    pub recipe: String,
    /// The version of the node.
    pub version: String,
    /// The architecture of the node.
    pub architecture: Architecture,
    /// The tags of the image and its snapshot.
    pub tags: Vec<Tag>,
    /// `UefiData`: the keys that the firmware trusts. `None` for an unsigned disk.
    pub uefi_data: Option<String>,
}

/// Where and how to publish it.
pub struct Options {
    /// The region to upload to.
    pub region: Region,
    /// The regions to copy the image to.
    pub copies: Vec<Region>,
    /// The accounts that may launch it, each of 12 digits.
    pub share: Vec<String>,
    /// Whether everybody may launch it.
    pub public: bool,
    /// The day from which AWS marks it as deprecated.
    pub deprecate: Option<Date>,
    /// How many images of the recipe to keep, of those with the same [`OWNER`] as the subject,
    /// which must have one then.
    pub prune: Option<usize>,
    /// Today.
    pub today: Date,
}

/// A finished publish.
pub struct Published {
    /// The image's name in every region.
    pub name: String,
    /// Each region's image.
    pub images: Vec<(Region, String)>,
    /// Whether the image was published before.
    pub was_there: bool,
    /// The images and snapshots that were removed, each with its region.
    pub removed: Vec<(Region, String)>,
}

impl Subject {
    /// The description of the image.
    fn description(&self) -> String {
        format!("{} {}", self.recipe, self.version)
    }

    /// The name of the image. It is the same for the same disk and the same keys in the firmware,
    /// and differs for any other: after a revocation the same disk needs another image.
    pub fn name(&self) -> String {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || "-._/()".contains(c) { c } else { '-' };
        let version: String = self.version.chars().map(plain).take(64).collect();
        let trust = self.uefi_data.as_ref().map(|keys| Digest::of(keys.as_bytes()).hex());
        let trust = trust.map(|trust| format!("{}-", &trust[..TRUST_DIGITS])).unwrap_or_default();
        let disk = self.content.digest.hex();
        format!("{}{version}-{trust}{}", self.prefix(), &disk[..NAMED_DIGITS])
    }

    /// The token of a call that makes a resource with this description and our tags. AWS returns
    /// the same resource for the same token, also if it was removed, and refuses the token of a
    /// call with other parameters: so it covers all that may differ, and `more`.
    fn token(&self, description: &str, more: &[&str]) -> String {
        let covered = json!([more, self.content.digest.hex(), description, self.tags]);
        Digest::of(covered.to_string().as_bytes()).hex()
    }

    /// The start of the names of all images of the recipe.
    fn prefix(&self) -> String {
        format!("{}-", self.recipe.chars().take(32).collect::<String>())
    }
}

/// Publishes a disk, and continues where an earlier publish of it stopped, on any machine.
///
/// # Errors
/// AWS refuses a call, or cannot be reached. The next publish of the same disk continues there.
pub fn publish(
    transport: &dyn Transport,
    report: &Report,
    subject: &Subject,
    options: &Options,
) -> Result<Published> {
    if subject.content.blocks.is_empty() {
        return Err(Error::build(format!("`{}` has only zeros", subject.content.path.display())));
    }
    let home = RegionalClient::new(transport, &options.region);
    let (id, was_there) = register(&home, report, subject)?;
    let mut images = vec![(options.region.clone(), id.clone())];
    images.extend(copies::make(&home, report, subject, &id, &options.copies)?);
    let mut removed = Vec::new();
    for (region, id) in &images {
        let here = home.in_region(region);
        here.share_image(id, &options.share, options.public)?;
        if let Some(day) = options.deprecate {
            here.deprecate_image(id, &format!("{day}T00:00:00Z"))?;
        }
        if let Some(keep) = options.prune {
            let gone = prune::plan(&here, subject, Some(id), keep, options.today)?.remove(&here)?;
            removed.extend(gone.into_iter().map(|gone| (region.clone(), gone)));
        }
    }
    Ok(Published { name: subject.name(), images, was_there, removed })
}

/// Finds or makes the image in the home region, and returns whether it was there before. An image
/// that fails at AWS is removed and made again.
fn register(home: &RegionalClient, report: &Report, subject: &Subject) -> Result<(String, bool)> {
    let mut rejected = Vec::new();
    for _ in 0..ATTEMPTS {
        let (id, was_there) = match ami::find_or_clear(home, report, &subject.name())? {
            Ok(image) => (image.id, true),
            Err(_) => {
                (ami::register(home, subject, &snapshot::complete(home, report, subject)?)?, false)
            }
        };
        if ami::wait(home, report, &id)? {
            return Ok((id, was_there));
        }
        rejected.push(id);
    }
    Err(no_image(home, &rejected))
}

/// The images and snapshots that a publish would remove now, a line of JSON each. Makes only calls
/// that change nothing.
///
/// # Errors
/// AWS refuses a call, or cannot be reached.
pub fn would_remove(
    transport: &dyn Transport,
    subject: &Subject,
    options: &Options,
) -> Result<Vec<Value>> {
    let Some(keep) = options.prune else { return Ok(Vec::new()) };
    let mut regions = vec![&options.region];
    regions.extend(options.copies.iter().filter(|region| **region != options.region));
    let mut lines = Vec::new();
    for region in regions {
        let here = RegionalClient::new(transport, region);
        let current = ami::find(&here, &subject.name())?.map(|image| image.id);
        let prune = prune::plan(&here, subject, current.as_deref(), keep, options.today)?;
        lines.extend(prune.to_json(&here));
    }
    Ok(lines)
}

impl Published {
    /// The result of the verb for stdout.
    pub fn to_json(&self, subject: &Subject) -> Value {
        let images: Map<_, _> = self
            .images
            .iter()
            .map(|(region, id)| (region.name().to_owned(), id.as_str().into()))
            .collect();
        let removed: Vec<Value> = self
            .removed
            .iter()
            .map(|(region, id)| json!({ "region": region.name(), "id": id }))
            .collect();
        json!({
            "recipe": subject.recipe,
            "version": subject.version,
            "name": self.name,
            "was-there": self.was_there,
            "image-sha256": subject.content.digest.hex(),
            "images": images,
            "removed": removed,
        })
    }
}

/// Ends a step with its line.
fn done(step: crate::report::Step, product: &str, size: Option<u64>) {
    step.done(product, size, Outcome::Ran);
}

/// The error after every attempt to make an image failed.
fn no_image(here: &RegionalClient, rejected: &[String]) -> Error {
    let region = &here.region;
    Error::build(format!("no image in {region} becomes available"))
        .cause(format!("these failed at AWS: {}", rejected.join(", ")))
        .hint(format!(
            "aws ec2 describe-images --region {region} --owners self \
             --query 'Images[].[ImageId,State,StateReason.Message]'"
        ))
}

/// The error after the wait for a snapshot or an image timed out.
fn late(here: &RegionalClient, id: &str) -> Error {
    Error::build(format!("`{id}` in {} is not ready yet", here.region))
        .hint("run the same command again later: it continues where it stopped")
}
