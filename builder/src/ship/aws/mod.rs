//! An image as an AMI: its blocks become a snapshot by EBS direct, that an image, and that is
//! copied, shared, dated and counted.
//!
//! Nothing is noted on this machine. What a publish has done is found again at AWS: the image by
//! its name, which has the digest of the disk in it, and a snapshot that is not complete yet by its
//! tags, which say how far it is.

mod ami;
mod content;
mod copies;
mod prune;
mod regional;
mod rights;
mod snapshot;
mod tags;
mod upload;

pub use content::{BLOCK, Content};
pub use rights::Share;
pub use tags::{OWNER, Tags};
pub use upload::send;

use crate::error::{Error, Result};
use crate::plan::{Architecture, Date};
use crate::produce::aws::{Cloud, Region};
use crate::report::{Outcome, Report};
use regional::Regional;
use serde_json::{Map, Value, json};

/// How often something is made anew that fails at AWS, before the publish does.
const ATTEMPTS: usize = 3;

/// How many digits of the disk's SHA-256 are in the name of its image.
const NAMED_DIGITS: usize = 12;

/// What is published.
pub struct Subject {
    /// The disk.
    pub content: Content,
    /// The recipe's name, and the version of the node.
    pub recipe: String,
    /// The version of the node.
    pub version: String,
    /// What it runs on.
    pub architecture: Architecture,
    /// What AWS is to know of it.
    pub tags: Tags,
    /// `UefiData`: whom the firmware trusts. None for a disk that nobody signed.
    pub uefi_data: Option<String>,
}

/// What is to come of it.
pub struct Wish {
    /// Where it is uploaded.
    pub region: Region,
    /// Where else it is to be.
    pub copies: Vec<Region>,
    /// Who may start it.
    pub share: Share,
    /// The day from which on AWS calls it deprecated.
    pub deprecate: Option<Date>,
    /// How many images of the recipe are to stay, of those that have the same [`OWNER`] as the
    /// subject's tags. That must be there then.
    pub prune: Option<usize>,
    /// Today.
    pub today: Date,
}

/// What came of it.
pub struct Published {
    /// The image's name in every region.
    pub name: String,
    /// Each region's image.
    pub images: Vec<(Region, String)>,
    /// Whether the image was there before.
    pub was_there: bool,
    /// What was removed: images and snapshots, each with its region.
    pub removed: Vec<(Region, String)>,
}

impl Subject {
    /// The description of the image.
    fn description(&self) -> String {
        format!("{} {}", self.recipe, self.version)
    }

    /// The name of the image: the same disk has the same one, and no other disk has it.
    pub fn name(&self) -> String {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || "-._/()".contains(c) { c } else { '-' };
        let version: String = self.version.chars().map(plain).take(64).collect();
        format!("{}{version}-{}", self.prefix(), &self.content.digest.hex()[..NAMED_DIGITS])
    }

    /// What the names of all images of the recipe begin with.
    fn prefix(&self) -> String {
        format!("{}-", self.recipe.chars().take(32).collect::<String>())
    }
}

/// Publishes. What was done before, by this or by another machine, is not done again.
///
/// # Errors
/// AWS refuses a call, or cannot be reached. What is done until then stays, and the next publish of
/// the same image goes on from there.
pub fn publish(
    cloud: &dyn Cloud,
    report: &Report,
    subject: &Subject,
    wish: &Wish,
) -> Result<Published> {
    if subject.content.blocks.is_empty() {
        return Err(Error::build(format!(
            "`{}` holds nothing but zeros",
            subject.content.path.display()
        )));
    }
    let home = Regional { cloud, region: wish.region.clone() };
    let (id, was_there) = register(&home, report, subject)?;
    let mut images = vec![(wish.region.clone(), id.clone())];
    images.extend(copies::make(&home, report, subject, &id, &wish.copies)?);
    let mut removed = Vec::new();
    for (region, id) in &images {
        let here = Regional { cloud, region: region.clone() };
        rights::share(&here, id, &wish.share)?;
        rights::deprecate(&here, id, wish.deprecate)?;
        if let Some(keep) = wish.prune {
            let gone = prune::victims(&here, subject, Some(id), keep, wish.today)?.remove(&here)?;
            removed.extend(gone.into_iter().map(|gone| (region.clone(), gone)));
        }
    }
    Ok(Published { name: subject.name(), images, was_there, removed })
}

/// The image of the disk in the home region, and whether it was there before. One that fails at AWS
/// is removed and made again.
fn register(home: &Regional, report: &Report, subject: &Subject) -> Result<(String, bool)> {
    let mut useless = Vec::new();
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
        useless.push(id);
    }
    Err(no_image(home, &useless))
}

/// What a publish would remove now, a line of JSON each, if `wish` says how many images are to
/// stay. Only looks.
///
/// # Errors
/// AWS refuses to look, or cannot be reached.
pub fn would_remove(cloud: &dyn Cloud, subject: &Subject, wish: &Wish) -> Result<Vec<Value>> {
    let Some(keep) = wish.prune else { return Ok(Vec::new()) };
    let mut regions = vec![&wish.region];
    regions.extend(wish.copies.iter().filter(|region| **region != wish.region));
    let mut lines = Vec::new();
    for region in regions {
        let here = Regional { cloud, region: region.clone() };
        let there = ami::find(&here, &subject.name())?.map(|image| image.id);
        lines.extend(
            prune::victims(&here, subject, there.as_deref(), keep, wish.today)?.to_json(&here),
        );
    }
    Ok(lines)
}

impl Published {
    /// For scripts.
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
        json!({ "recipe": subject.recipe, "version": subject.version, "name": self.name, "was-there": self.was_there,
            "image-sha256": subject.content.digest.hex(), "images": images, "removed": removed })
    }
}

/// A step's line.
fn done(step: crate::report::Step, product: &str, size: Option<u64>) {
    step.done(product, size, Outcome::Ran);
}

/// Every attempt to make an image failed.
fn no_image(here: &Regional, useless: &[String]) -> Error {
    let region = &here.region;
    Error::build(format!("no image in {region} becomes available"))
        .cause(format!("these failed at AWS: {}", useless.join(", ")))
        .hint(format!(
            "aws ec2 describe-images --region {region} --owners self --query 'Images[].[ImageId,State,StateReason.Message]'"
        ))
}

/// Something did not get ready while people wait.
fn late(here: &Regional, id: &str) -> Error {
    Error::build(format!("`{id}` in {} is not ready yet", here.region))
        .hint("run the same command again later: it goes on where it was")
}
