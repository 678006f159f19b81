//! The same image in other regions.

use super::regional::{Regional, parameters};
use super::{ATTEMPTS, Subject, ami, no_image, snapshot};
use crate::engine::digest::Digest;
use crate::error::Result;
use crate::produce::aws::{Action, Region, Request};
use crate::report::Report;

/// Copies an image to each region that lacks it, all at once, and waits for them. AWS copies what
/// the firmware trusts with it.
pub(super) fn make(
    home: &Regional,
    report: &Report,
    subject: &Subject,
    id: &str,
    regions: &[Region],
) -> Result<Vec<(Region, String)>> {
    let others = regions.iter().filter(|region| **region != home.region);
    let begun = others.map(|region| {
        let there = Regional { cloud: home.cloud, region: region.clone() };
        let mut useless = Vec::new();
        let copy = begin(home, &there, report, subject, id, &mut useless)?;
        Ok((there, copy, useless))
    });
    let begun = begun.collect::<Result<Vec<_>>>()?;
    let ended = begun.into_iter().map(|(there, mut copy, mut useless)| {
        for attempt in 1.. {
            if ami::wait(&there, report, &copy)? {
                break;
            }
            // It may be gone already, and AWS would give it again to who asks with the same token.
            useless.push(copy);
            if attempt == ATTEMPTS {
                return Err(no_image(&there, &useless));
            }
            copy = begin(home, &there, report, subject, id, &mut useless)?;
        }
        Ok((there.region, copy))
    });
    ended.collect()
}

/// The copy that there is, or one that is begun. What has failed before is removed, and its
/// identifier put among the `useless`.
fn begin(
    home: &Regional,
    there: &Regional,
    report: &Report,
    subject: &Subject,
    id: &str,
    useless: &mut Vec<String>,
) -> Result<String> {
    let failed = match ami::find_or_clear(there, report, &subject.name())? {
        Ok(image) => return Ok(image.id),
        Err(failed) => failed,
    };
    for image in failed {
        for of_copy in &image.snapshots {
            snapshot::remove(there, of_copy)?;
        }
        if !useless.contains(&image.id) {
            useless.push(image.id);
        }
    }
    copy(home, there, subject, id, useless)
}

/// Asks for a copy. Whoever asks for the same one again, and knows of the same useless ones, is
/// given the same one.
fn copy(
    home: &Regional,
    there: &Regional,
    subject: &Subject,
    id: &str,
    useless: &[String],
) -> Result<String> {
    let name = subject.name();
    let mut token = format!("osbuild\n{id}\n{}\n{name}", there.region);
    useless.iter().for_each(|useless| token.extend(["\n", useless]));
    let mut said = parameters([
        ("SourceImageId", id),
        ("SourceRegion", home.region.name()),
        ("Name", &name),
        ("Description", &subject.description()),
        ("ClientToken", &Digest::of(token.as_bytes()).hex()),
    ]);
    said.extend(subject.tags.specifications(&["image", "snapshot"]));
    let request = Request::query(Action::CopyImage, said);
    there.said(request.action, there.attempt(&request).and_then(|answer| answer.element("imageId")))
}
