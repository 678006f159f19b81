//! The image of a snapshot, as EC2 starts it.

use super::regional::{Regional, ours, parameters};
use super::{Subject, done, late};
use crate::error::{Error, Result};
use crate::plan::Architecture;
use crate::produce::aws::{Action, Element, Request};
use crate::report::Report;

/// The name under which an instance has its first disk. The node does not look at it.
const ROOT_DEVICE: &str = "/dev/xvda";

/// An image at AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub id: String,
    pub name: String,
    /// `pending`, `available`, `failed`, ….
    pub state: String,
    /// When it was made: `2026-11-21T12:00:00.000Z`.
    pub created: String,
    /// The snapshots that it is made of.
    pub snapshots: Vec<String>,
}

/// The images that are ours and fit these filters.
pub(super) fn list(here: &Regional, filters: &[(&str, &str)]) -> Result<Vec<Image>> {
    let mut asked = ours(filters);
    asked.extend(parameters([("Owner.1", "self")]));
    describe(here, asked)
}

/// The image of this name, unless it failed.
pub(super) fn find(here: &Regional, name: &str) -> Result<Option<Image>> {
    let found = list(here, &[("name", name)])?;
    Ok(found
        .into_iter()
        .find(|image| image.name == name && !["failed", "error", "invalid", "deregistered"].contains(&&*image.state)))
}

fn describe(here: &Regional, asked: Vec<(String, String)>) -> Result<Vec<Image>> {
    let request = Request::query(Action::DescribeImages, asked);
    let root = match here.attempt(&request) {
        // One that was just made is not known everywhere at once.
        Err(failure) if failure.code() == Some("InvalidAMIID.NotFound") => return Ok(Vec::new()),
        answer => here.said(request.action, answer.and_then(|answer| answer.xml()))?,
    };
    let one = |item: &Element| {
        let text = |name| item.get(name).unwrap_or_default().to_owned();
        let disks = item.items("blockDeviceMapping").iter().filter_map(|disk| disk.child("ebs")?.get("snapshotId"));
        let snapshots = disks.map(str::to_owned).collect();
        Image { id: text("imageId"), name: text("name"), state: text("imageState"), created: text("creationDate"), snapshots }
    };
    Ok(root.items("imagesSet").iter().map(one).collect())
}

/// Makes the image, and gives its identifier. If it turns out to have been made already, it is that one.
pub(super) fn register(here: &Regional, subject: &Subject, snapshot: &str) -> Result<String> {
    let architecture = match subject.architecture {
        Architecture::Amd64 => "x86_64",
        Architecture::Arm64 => "arm64",
    };
    let name = subject.name();
    let mut said = parameters([
        ("Name", &name),
        ("Description", &format!("{} {}", subject.recipe, subject.version)),
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

/// Waits until an image can be started.
pub(super) fn wait(here: &Regional, report: &Report, id: &str) -> Result<()> {
    let step = report.step(format!("image {}", here.region));
    let ready = here.cloud.patience().until(|| {
        let found = describe(here, parameters([("ImageId.1", id)]))?.into_iter().next();
        let state = found.map_or_else(|| "pending".to_owned(), |image| image.state);
        step.doing(state.clone());
        match state.as_str() {
            "available" => Ok(Some(())),
            "pending" | "transient" => Ok(None),
            other => Err(Error::build(format!("image `{id}` in {} is `{other}`", here.region))
                .hint(format!("aws ec2 describe-images --region {} --image-ids {id}", here.region))),
        }
    })?;
    ready.ok_or_else(|| late(here, id))?;
    done(step, id, None);
    Ok(())
}
