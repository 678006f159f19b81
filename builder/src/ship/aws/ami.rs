//! The image of a snapshot, as EC2 starts it.

use super::regional::{Regional, ours, parameters, tags};
use super::{Subject, done, late};
use crate::error::{Error, Result};
use crate::plan::Architecture;
use crate::produce::aws::{Action, Element, Request};
use crate::report::Report;
use std::time::Instant;

/// The name under which an instance has its first disk. The node does not look at it.
const ROOT_DEVICE: &str = "/dev/xvda";

/// An image at AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub id: String,
    pub name: String,
    pub description: String,
    /// `pending`, `available`, `failed`, ….
    pub state: String,
    /// Why it is in that state, if AWS says so.
    pub reason: Option<String>,
    /// When it was made: `2026-11-21T12:00:00.000Z`.
    pub created: String,
    pub tags: Vec<(String, String)>,
    /// The snapshots that it is made of.
    pub snapshots: Vec<String>,
}

impl Image {
    /// Whether it will never be available. It keeps its name until it is deregistered.
    pub fn has_failed(&self) -> bool {
        FAILED.contains(&self.state.as_str())
    }
}

/// The states of an image that never becomes available.
const FAILED: [&str; 4] = ["failed", "error", "invalid", "deregistered"];

/// The images of this account that fit these filters.
pub(super) fn list(here: &Regional, filters: &[(&str, &str)]) -> Result<Vec<Image>> {
    let mut asked = ours(filters);
    asked.extend(parameters([("Owner.1", "self")]));
    describe(here, asked)
}

/// The image of this name, unless it failed.
pub(super) fn find(here: &Regional, name: &str) -> Result<Option<Image>> {
    Ok(named(here, name)?.into_iter().find(|image| !image.has_failed()))
}

/// The image of this name. If it failed it is removed, so that another one can have the name, and
/// given as such: the name has the digest of the disk in it, so no image of anything else is called
/// so.
pub(super) fn find_or_clear(
    here: &Regional,
    report: &Report,
    name: &str,
) -> Result<std::result::Result<Image, Vec<Image>>> {
    let (failed, good): (Vec<_>, Vec<_>) =
        named(here, name)?.into_iter().partition(Image::has_failed);
    if let Some(image) = good.into_iter().next() {
        return Ok(Ok(image));
    }
    for image in &failed {
        let reason = image.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        report.note(format!(
            "image {} in {} is `{}`{reason}: it is removed and made again",
            image.id, here.region, image.state
        ));
        deregister(here, &image.id)?;
    }
    Ok(Err(failed))
}

/// All images of this name. AWS lets one have it at a time, and one that failed keeps it.
fn named(here: &Regional, name: &str) -> Result<Vec<Image>> {
    let mut found = list(here, &[("name", name)])?;
    found.retain(|image| image.name == name);
    Ok(found)
}

/// Removes an image; one that is gone already is none.
pub(super) fn deregister(here: &Regional, id: &str) -> Result<()> {
    let request = Request::query(Action::DeregisterImage, parameters([("ImageId", id)]));
    match here.attempt(&request) {
        Err(failure) if failure.code().is_some_and(|code| code.starts_with("InvalidAMIID.")) => {
            Ok(())
        }
        done => here.said(request.action, done).map(drop),
    }
}

fn describe(here: &Regional, asked: Vec<(String, String)>) -> Result<Vec<Image>> {
    let request = Request::query(Action::DescribeImages, asked);
    let root = match here.attempt(&request) {
        // One that was just made is not known everywhere at once, and one that was deregistered is
        // known to nobody.
        Err(failure) if failure.code().is_some_and(|code| code.starts_with("InvalidAMIID.")) => {
            return Ok(Vec::new());
        }
        answer => here.said(request.action, answer.and_then(|answer| answer.xml()))?,
    };
    let one = |item: &Element| {
        let text = |name| item.get(name).unwrap_or_default().to_owned();
        let disks = item
            .items("blockDeviceMapping")
            .iter()
            .filter_map(|disk| disk.child("ebs")?.get("snapshotId"));
        Image {
            id: text("imageId"),
            name: text("name"),
            description: text("description"),
            state: text("imageState"),
            reason: item
                .child("stateReason")
                .and_then(|reason| reason.get("message"))
                .map(str::to_owned),
            created: text("creationDate"),
            tags: tags(item),
            snapshots: disks.map(str::to_owned).collect(),
        }
    };
    Ok(root.items("imagesSet").iter().map(one).collect())
}

/// Makes the image, and gives its identifier. If it turns out to have been made already, it is that
/// one.
pub(super) fn register(here: &Regional, subject: &Subject, snapshot: &str) -> Result<String> {
    let architecture = match subject.architecture {
        Architecture::Amd64 => "x86_64",
        Architecture::Arm64 => "arm64",
    };
    let name = subject.name();
    let mut said = parameters([
        ("Name", &name),
        ("Description", &subject.description()),
        ("Architecture", architecture),
        ("VirtualizationType", "hvm"),
        ("BootMode", "uefi"),
        ("EnaSupport", "true"),
        ("ImdsSupport", "v2.0"),
        ("TpmSupport", "v2.0"),
        ("RootDeviceName", ROOT_DEVICE),
        ("BlockDeviceMapping.1.DeviceName", ROOT_DEVICE),
        ("BlockDeviceMapping.1.Ebs.SnapshotId", snapshot),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
    ]);
    said.extend(subject.uefi_data.iter().map(|data| ("UefiData".to_owned(), data.clone())));
    said.extend(subject.tags.specifications(&["image"]));
    let request = Request::query(Action::RegisterImage, said);
    let answer = here.attempt(&request);
    // An answer that was lost on its way, or another machine that publishes the same.
    if answer.as_ref().is_err_and(|failure| failure.code() == Some("InvalidAMIName.Duplicate"))
        && let Some(image) = find(here, &name)?
    {
        return Ok(image.id);
    }
    here.said(request.action, answer.and_then(|answer| answer.element("imageId")))
}

/// Waits until an image can be started, and gives whether it can. One that was not known to AWS for
/// long never will be.
pub(super) fn wait(here: &Regional, report: &Report, id: &str) -> Result<bool> {
    let step = report.step(format!("image {}", here.region));
    let begun = Instant::now();
    let ended = here.cloud.patience().until(|| {
        let found = describe(here, parameters([("ImageId.1", id)]))?.into_iter().next();
        let is_gone = found.is_none() && begun.elapsed() > here.cloud.patience().settle;
        let state = found.as_ref().map_or("pending", |image| image.state.as_str());
        step.doing(state);
        match state {
            "available" => Ok(Some(true)),
            _ if is_gone || found.as_ref().is_some_and(Image::has_failed) => Ok(Some(false)),
            "pending" | "transient" => Ok(None),
            other => {
                Err(Error::build(format!("image `{id}` in {} is `{other}`", here.region)).hint(
                    format!("aws ec2 describe-images --region {} --image-ids {id}", here.region),
                ))
            }
        }
    })?;
    let is_available = ended.ok_or_else(|| late(here, id))?;
    if is_available {
        done(step, id, None);
    }
    Ok(is_available)
}
