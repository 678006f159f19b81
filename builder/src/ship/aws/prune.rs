//! Removes old images of a recipe, and snapshots that interrupted publishes have left. Others may
//! publish recipes of the same name in the same account: only resources with the owner's tag, and
//! with the tags, the name and the description that our publish writes, are removed.

use super::tags::{IMAGE, OWNER, RECIPE};
use super::{NAMED_DIGITS, Subject};
use crate::error::{Error, Result};
use crate::plan::Date;
use osbuild_aws::{Image, RegionalClient, Snapshot, Tag, tag};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The start of the description that AWS gives the snapshot of a copied image.
const COPIED: &str = "Copied for DestinationAmi ";

/// The resources to remove from one region.
pub(super) struct Prune {
    /// Images, the newest first, each with the snapshots that no image of ours that stays uses.
    images: Vec<Image>,
    /// Snapshots that no image of ours uses.
    orphans: Vec<Snapshot>,
}

/// Finds what to remove: all images of this recipe and owner but the newest `keep`, of which the
/// image `current` counts as the newest, and the snapshots that no image uses from before the day
/// before `today`.
///
/// # Errors
/// The subject has no owner, or AWS refuses the call.
pub(super) fn plan(
    here: &RegionalClient,
    subject: &Subject,
    current: Option<&str>,
    keep: usize,
    today: Date,
) -> Result<Prune> {
    let owner = tag(&subject.tags, OWNER).ok_or_else(|| {
        Error::usage("`--prune` needs the owner of the images").hint("name it with `--owner NAME`")
    })?;
    let ours =
        [(&*format!("tag:{RECIPE}"), subject.recipe.as_str()), (&*format!("tag:{OWNER}"), owner)];
    let mut images = here.images(&ours)?;
    images.retain(|image| is_our_image(subject, image) || current == Some(&image.id));
    // An old image that is published again counts as the newest.
    images.sort_by(|a, b| {
        (current == Some(&b.id), &b.created).cmp(&(current == Some(&a.id), &a.created))
    });
    // The current image counts, even if it does not exist yet or has another owner.
    let absent = usize::from(!images.iter().any(|image| current == Some(&image.id)));
    let mut old = images.split_off(images.len().min(keep.max(1) - absent));
    let used: BTreeSet<&String> =
        images.iter().chain(&old).flat_map(|image| &image.snapshots).collect();
    let mut orphans = here.snapshots(&ours)?;
    orphans.retain(|snapshot| {
        // Another machine may be publishing it, and may have begun before midnight.
        let is_old = day(&snapshot.started).is_some_and(|day| day.plus_days(1) < today);
        is_old && !used.contains(&snapshot.id) && is_our_snapshot(subject, snapshot)
    });
    // Images of one disk share its snapshot, which stays with the last of them.
    let kept: BTreeSet<&String> = images.iter().flat_map(|image| &image.snapshots).collect();
    old.iter_mut().for_each(|image| image.snapshots.retain(|snapshot| !kept.contains(snapshot)));
    Ok(Prune { images: old, orphans })
}

impl Prune {
    /// Removes the images, each before its snapshots, and the orphans. Returns the identifiers of
    /// what is gone: a snapshot that another image uses stays.
    pub fn remove(self, here: &RegionalClient) -> Result<Vec<String>> {
        let mut gone = Vec::new();
        let remove = |snapshot: String| {
            here.delete_snapshot(&snapshot).map(|is_gone| is_gone.then_some(snapshot))
        };
        for image in self.images {
            here.deregister_image(&image.id)?;
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

    /// The resources, for `--dry-run`.
    pub fn to_json(&self, here: &RegionalClient) -> Vec<Value> {
        let region = here.region.name();
        let line = |id: &str, name: &str, made: &str| -> Value {
            json!({ "would-remove": id, "region": region, "name": name, "made": made })
        };
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

/// Whether our publish made this image: its name, description and tags match.
fn is_our_image(subject: &Subject, image: &Image) -> bool {
    is_our_name(subject, &image.name, &image.tags)
        && image.description.starts_with(&format!("{} ", subject.recipe))
}

/// Whether our publish made this snapshot, or AWS for a copy of our image.
fn is_our_snapshot(subject: &Subject, snapshot: &Snapshot) -> bool {
    let is_copy = snapshot.description.starts_with(COPIED) && disk(&snapshot.tags).is_some();
    is_copy || is_our_name(subject, &snapshot.description, &snapshot.tags)
}

/// Whether a name is that of the disk with the digest in these tags, as of [`Subject::name`].
fn is_our_name(subject: &Subject, name: &str, tags: &[Tag]) -> bool {
    let end = disk(tags).map(|digest| format!("-{}", &digest[..NAMED_DIGITS]));
    name.starts_with(&subject.prefix()) && end.is_some_and(|end| name.ends_with(&end))
}

/// The SHA-256 of the disk, from the tags.
fn disk(tags: &[Tag]) -> Option<&str> {
    tag(tags, IMAGE)
        .filter(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The day of a time in AWS's format.
fn day(time: &str) -> Option<Date> {
    time.get(..10)?.parse().ok()
}
