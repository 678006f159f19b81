//! Old images of a recipe, and what broken publishes have left. Others publish in the same account,
//! and may use the same names of recipes: what is removed has the owner's tag, the tags, the name
//! and the description that only a publish of ours gives it.

use super::ami::{self, Image};
use super::regional::{Regional, tag};
use super::snapshot::{self, Snapshot};
use super::tags::{IMAGE, OWNER, RECIPE};
use super::{NAMED_DIGITS, Subject};
use crate::error::{Error, Result};
use crate::plan::Date;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What AWS itself writes into the description of a snapshot that it makes for the copy of an
/// image.
const COPIED: &str = "Copied for DestinationAmi ";

/// What is removed from one region.
pub(super) struct Victims {
    /// Images, the newest first.
    images: Vec<Image>,
    /// Snapshots that no image of ours is made of.
    orphans: Vec<Snapshot>,
}

/// What to remove so that of the images of this recipe and owner the newest `keep` stay, of which
/// the one with the identifier `current` counts as the newest; and the snapshots of both that are
/// of an earlier day and that no image is made of.
///
/// # Errors
/// The subject has no owner, or AWS does not let us look.
pub(super) fn victims(
    here: &Regional,
    subject: &Subject,
    current: Option<&str>,
    keep: usize,
    today: Date,
) -> Result<Victims> {
    let owner = subject.tags.get(OWNER).ok_or_else(|| {
        Error::usage("nothing says whose images may be removed")
            .hint("name the owner by `--owner NAME`")
    })?;
    let ours =
        [(&*format!("tag:{RECIPE}"), subject.recipe.as_str()), (&*format!("tag:{OWNER}"), owner)];
    let mut images = ami::list(here, &ours)?;
    images.retain(|image| is_our_image(subject, image) || current == Some(&image.id));
    // What is published now counts as the newest, even if it is an old one that is published once
    // more.
    images.sort_by(|a, b| {
        (current == Some(&b.id), &b.created).cmp(&(current == Some(&a.id), &a.created))
    });
    // One that is yet to be made, or that is of another owner, counts too.
    let absent = usize::from(!images.iter().any(|image| current == Some(&image.id)));
    let old = images.split_off(images.len().min(keep.max(1) - absent));
    let used: BTreeSet<&String> =
        images.iter().chain(&old).flat_map(|image| &image.snapshots).collect();
    let mut orphans = snapshot::find(here, &ours)?;
    orphans.retain(|snapshot| {
        // One of today may be another machine's, on its way to be an image.
        let is_old = day(&snapshot.started).is_some_and(|day| day < today);
        is_old && !used.contains(&snapshot.id) && is_our_snapshot(subject, snapshot)
    });
    Ok(Victims { images: old, orphans })
}

impl Victims {
    /// Removes all of it, each image before its snapshots, and gives what is gone. A snapshot that
    /// somebody else's image is made of stays.
    pub fn remove(self, here: &Regional) -> Result<Vec<String>> {
        let mut gone = Vec::new();
        let remove = |snapshot: String| {
            snapshot::remove(here, &snapshot).map(|is_gone| is_gone.then_some(snapshot))
        };
        for image in self.images {
            ami::deregister(here, &image.id)?;
            gone.push(image.id);
            for snapshot in image.snapshots {
                gone.extend(remove(snapshot)?);
            }
        }
        for orphan in self.orphans {
            gone.extend(remove(orphan.id)?);
        }
        Ok(gone)
    }

    /// For people who want to see it before.
    pub fn to_json(&self, here: &Regional) -> Vec<Value> {
        let line = |id: &str, name: &str, made: &str| json!({ "would-remove": id, "region": here.region.name(), "name": name, "made": made });
        let mut lines = Vec::new();
        for image in &self.images {
            lines.push(line(&image.id, &image.name, &image.created));
            lines.extend(
                image.snapshots.iter().map(|snapshot| line(snapshot, &image.name, &image.created)),
            );
        }
        lines.extend(
            self.orphans
                .iter()
                .map(|orphan| line(&orphan.id, &orphan.description, &orphan.started)),
        );
        lines
    }
}

/// Whether a publish of ours made this image: name, description and the disk's digest in its tag go
/// together.
fn is_our_image(subject: &Subject, image: &Image) -> bool {
    is_our_name(subject, &image.name, &image.tags)
        && image.description.starts_with(&format!("{} ", subject.recipe))
}

/// Whether a publish of ours made this snapshot, or AWS for a copy that was.
fn is_our_snapshot(subject: &Subject, snapshot: &Snapshot) -> bool {
    let is_copy = snapshot.description.starts_with(COPIED) && disk(&snapshot.tags).is_some();
    is_copy || is_our_name(subject, &snapshot.description, &snapshot.tags)
}

/// Whether a name is one that [`Subject::name`] gives to the disk with the digest in these tags.
fn is_our_name(subject: &Subject, name: &str, tags: &[(String, String)]) -> bool {
    let end = disk(tags).map(|digest| format!("-{}", &digest[..NAMED_DIGITS]));
    name.starts_with(&subject.prefix()) && end.is_some_and(|end| name.ends_with(&end))
}

/// The SHA-256 of the disk, as the tag has it.
fn disk(tags: &[(String, String)]) -> Option<&str> {
    tag(tags, IMAGE)
        .filter(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The day of a time as AWS writes it.
fn day(time: &str) -> Option<Date> {
    time.get(..10)?.parse().ok()
}
