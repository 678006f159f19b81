//! Old images of a recipe, and what broken publishes have left.

use super::regional::{Regional, parameters};
use super::tags::RECIPE;
use super::{Subject, ami, snapshot};
use crate::error::Result;
use crate::plan::Date;
use crate::produce::aws::{Action, Request};
use std::collections::BTreeSet;

/// Removes all images of the recipe but the newest `keep` and the one with this identifier, each with its snapshots; then the snapshots of an
/// earlier day that no image is made of. Gives what is gone.
pub(super) fn prune(here: &Regional, subject: &Subject, id: &str, keep: usize, today: Date) -> Result<Vec<String>> {
    let of_recipe = [(&*format!("tag:{RECIPE}"), subject.recipe.as_str())];
    let mut images = ami::list(here, &of_recipe)?;
    // What was published now counts as the newest, even if it is an old one that was published once more.
    images.sort_by(|a, b| (b.id == id, &b.created).cmp(&(a.id == id, &a.created)));
    let old = images.split_off(images.len().min(keep.max(1)));
    let mut gone = Vec::new();
    for image in &old {
        deregister(here, &image.id)?;
        gone.push(image.id.clone());
        for snapshot in &image.snapshots {
            snapshot::remove(here, snapshot)?;
            gone.push(snapshot.clone());
        }
    }
    let used: BTreeSet<&String> = images.iter().flat_map(|image| &image.snapshots).chain(&gone).collect();
    let mut orphans = snapshot::find(here, &of_recipe)?;
    // One of today may be another machine's, on its way to be an image.
    orphans.retain(|snapshot| !used.contains(&snapshot.id) && day(&snapshot.started).is_some_and(|day| day < today));
    for orphan in orphans {
        snapshot::remove(here, &orphan.id)?;
        gone.push(orphan.id);
    }
    Ok(gone)
}

/// Removes an image; one that is gone already is none.
fn deregister(here: &Regional, id: &str) -> Result<()> {
    let request = Request::query(Action::DeregisterImage, parameters([("ImageId", id)]));
    match here.attempt(&request) {
        Err(failure) if failure.code().is_some_and(|code| code.starts_with("InvalidAMIID.")) => Ok(()),
        done => here.said(request.action, done).map(drop),
    }
}

/// The day of a time as AWS writes it.
fn day(time: &str) -> Option<Date> {
    time.get(..10)?.parse().ok()
}
