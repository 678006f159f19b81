//! The same image in other regions.

use super::{ATTEMPTS, Subject, ami, no_image};
use crate::error::Result;
use crate::report::Report;
use osbuild_aws::{ImageCopy, Region, RegionalClient};

/// Copies an image to each region that lacks it, all at the same time, and waits for the copies.
pub(super) fn make(
    home: &RegionalClient,
    report: &Report,
    subject: &Subject,
    id: &str,
    regions: &[Region],
) -> Result<Vec<(Region, String)>> {
    let others = regions.iter().filter(|region| **region != home.region);
    let started = others.map(|region| {
        let there = home.in_region(region);
        let mut rejected = Vec::new();
        let copy = start(home, &there, report, subject, id, &mut rejected)?;
        Ok((there, copy, rejected))
    });
    let started = started.collect::<Result<Vec<_>>>()?;
    let ended = started.into_iter().map(|(there, mut copy, mut rejected)| {
        for attempt in 1.. {
            if ami::wait(&there, report, &copy)? {
                break;
            }
            // Even if it is gone, AWS would return it again for the same token.
            rejected.push(copy);
            if attempt == ATTEMPTS {
                return Err(no_image(&there, &rejected));
            }
            copy = start(home, &there, report, subject, id, &mut rejected)?;
        }
        Ok((there.region, copy))
    });
    ended.collect()
}

/// Finds the copy, or starts it. Failed copies are removed and added to `rejected`.
fn start(
    home: &RegionalClient,
    there: &RegionalClient,
    report: &Report,
    subject: &Subject,
    id: &str,
    rejected: &mut Vec<String>,
) -> Result<String> {
    let failed = match ami::find_or_clear(there, report, &subject.name())? {
        Ok(image) => return Ok(image.id),
        Err(failed) => failed,
    };
    for image in failed {
        for snapshot in &image.snapshots {
            there.delete_snapshot(snapshot)?;
        }
        if !rejected.contains(&image.id) {
            rejected.push(image.id);
        }
    }
    copy(home, there, subject, id, rejected)
}

/// Starts a copy. The token makes AWS return the same copy to each caller that has the same tags,
/// and knows the same rejected ones.
fn copy(
    home: &RegionalClient,
    there: &RegionalClient,
    subject: &Subject,
    id: &str,
    rejected: &[String],
) -> Result<String> {
    let name = subject.name();
    let description = subject.description();
    let covered = [id, there.region.name(), &name, &rejected.join("\n")];
    Ok(there.copy_image(&ImageCopy {
        region: &home.region,
        id,
        name: &name,
        description: &description,
        tags: &subject.tags,
        token: &subject.token(&description, &covered),
    })?)
}
