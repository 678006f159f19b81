//! The same image in other regions.

use super::regional::{Regional, parameters};
use super::{Subject, ami};
use crate::error::Result;
use crate::produce::aws::{Action, Region, Request};
use crate::produce::digest::Digest;
use crate::report::Report;

/// Copies an image to each region that lacks it, all at once, and waits for them. AWS copies what the firmware trusts with it.
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
        let copy = match ami::find(&there, &subject.name())? {
            Some(image) => image.id,
            None => begin(home, &there, subject, id)?,
        };
        Ok((region.clone(), copy))
    });
    let begun = begun.collect::<Result<Vec<_>>>()?;
    for (region, copy) in &begun {
        ami::wait(&Regional { cloud: home.cloud, region: region.clone() }, report, copy)?;
    }
    Ok(begun)
}

/// Begins a copy. Whoever asks for the same one again is given the same one.
fn begin(home: &Regional, there: &Regional, subject: &Subject, id: &str) -> Result<String> {
    let name = subject.name();
    let token = Digest::of(format!("osbuild\n{id}\n{}\n{name}", there.region).as_bytes()).hex();
    let mut said = parameters([
        ("SourceImageId", id),
        ("SourceRegion", home.region.name()),
        ("Name", &name),
        ("Description", &format!("{} {}", subject.recipe, subject.version)),
        ("ClientToken", &token),
    ]);
    said.extend(subject.tags.specifications(&["image", "snapshot"]));
    let request = Request::query(Action::CopyImage, said);
    there.said(request.action, there.attempt(&request).and_then(|answer| answer.element("imageId")))
}
