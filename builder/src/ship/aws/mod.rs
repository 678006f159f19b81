//! An image as an AMI: its blocks become a snapshot by EBS direct, that an image, and that is copied, shared, dated and counted.
//!
//! Nothing is noted on this machine. What a publish has done is found again at AWS: the image by its name, which has the digest of the disk
//! in it, and a snapshot that is not complete yet by its tags, which say how far it is.

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
pub use tags::Tags;
pub use upload::send;

use crate::error::{Error, Result};
use crate::plan::{Architecture, Date};
use crate::produce::aws::{Cloud, Region};
use crate::report::{Outcome, Report};
use regional::Regional;
use serde_json::{Map, Value, json};

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
    /// How many images of the recipe are to stay.
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
    /// The name of the image: the same disk has the same one, and no other disk has it.
    pub fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._/()".contains(c) { c } else { '-' };
        let version: String = self.version.chars().map(plain).take(64).collect();
        format!("{}-{version}-{}", self.recipe.chars().take(32).collect::<String>(), &self.content.digest.hex()[..12])
    }
}

/// Publishes. What was done before, by this or by another machine, is not done again.
///
/// # Errors
/// AWS refuses a call, or cannot be reached. What is done until then stays, and the next publish of the same image goes on from there.
pub fn publish(cloud: &dyn Cloud, report: &Report, subject: &Subject, wish: &Wish) -> Result<Published> {
    if subject.content.blocks.is_empty() {
        return Err(Error::build(format!("`{}` holds nothing but zeros", subject.content.path.display())));
    }
    let home = Regional { cloud, region: wish.region.clone() };
    let name = subject.name();
    let there = ami::find(&home, &name)?;
    let was_there = there.is_some();
    let id = match there {
        Some(image) => image.id,
        None => {
            let snapshot = snapshot::complete(&home, report, subject)?;
            ami::register(&home, subject, &snapshot)?
        }
    };
    ami::wait(&home, report, &id)?;
    let mut images = vec![(wish.region.clone(), id.clone())];
    images.extend(copies::make(&home, report, subject, &id, &wish.copies)?);
    let mut removed = Vec::new();
    for (region, id) in &images {
        let here = Regional { cloud, region: region.clone() };
        rights::share(&here, id, &wish.share)?;
        rights::deprecate(&here, id, wish.deprecate)?;
        if let Some(keep) = wish.prune {
            let gone = prune::prune(&here, subject, id, keep, wish.today)?;
            removed.extend(gone.into_iter().map(|gone| (region.clone(), gone)));
        }
    }
    Ok(Published { name, images, was_there, removed })
}

impl Published {
    /// For scripts.
    pub fn to_json(&self, subject: &Subject) -> Value {
        let images: Map<_, _> = self.images.iter().map(|(region, id)| (region.name().to_owned(), id.as_str().into())).collect();
        let removed: Vec<Value> = self.removed.iter().map(|(region, id)| json!({ "region": region.name(), "id": id })).collect();
        json!({ "recipe": subject.recipe, "version": subject.version, "name": self.name, "was-there": self.was_there,
            "image-sha256": subject.content.digest.hex(), "images": images, "removed": removed })
    }
}

/// A step's line.
fn done(step: crate::report::Step, product: &str, size: Option<u64>) {
    step.done(product, size, Outcome::Ran);
}

/// Something did not get ready while people wait.
fn late(here: &Regional, id: &str) -> Error {
    Error::build(format!("`{id}` in {} is not ready yet", here.region))
        .hint("run the same command again later: it goes on where it was")
}
