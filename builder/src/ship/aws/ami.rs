//! The image of a snapshot.

use super::{Subject, done, late};
use crate::error::{Error, Result};
use crate::plan::Architecture;
use crate::report::Report;
use osbuild_aws::{Image, NewImage, RegionalClient};
use std::time::Instant;

/// The image of this name that has not failed.
pub(super) fn find(here: &RegionalClient, name: &str) -> Result<Option<Image>> {
    Ok(named(here, name)?.into_iter().find(|image| !image.has_failed()))
}

/// The image of this name. Failed ones are deregistered, so that another image can have the name,
/// and returned as the error. The name has the digests of the disk and of the firmware's keys in
/// it, so an image of another disk, or with other keys, never has it.
pub(super) fn find_or_clear(
    here: &RegionalClient,
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
            "image {} in {} is `{}`{reason}: removing it to make it again",
            image.id, here.region, image.state
        ));
        here.deregister_image(&image.id)?;
    }
    Ok(Err(failed))
}

/// The images of this name. AWS allows one at a time, and a failed one keeps its name.
fn named(here: &RegionalClient, name: &str) -> Result<Vec<Image>> {
    let mut found = here.images(&[("name", name)])?;
    found.retain(|image| image.name == name);
    Ok(found)
}

/// Registers the image, or finds it if it is registered already, and returns its identifier.
pub(super) fn register(here: &RegionalClient, subject: &Subject, snapshot: &str) -> Result<String> {
    let architecture = match subject.architecture {
        Architecture::Amd64 => "x86_64",
        Architecture::Arm64 => "arm64",
    };
    let name = subject.name();
    let registered = here.register_image(&NewImage {
        name: &name,
        description: &subject.description(),
        architecture,
        snapshot,
        uefi_data: subject.uefi_data.as_deref(),
        tags: &subject.tags,
    });
    // Either the response to an earlier try was lost, or another machine publishes the same image.
    // AWS may refuse the name before it lists the image.
    if registered.as_ref().is_err_and(|error| error.code() == Some("InvalidAMIName.Duplicate"))
        && let Some(image) = here.retry().until_settled(|| find(here, &name))?
    {
        return Ok(image.id);
    }
    Ok(registered?)
}

/// Waits until an image is available, and returns whether it is. An image that AWS does not know
/// after the settle timeout never will be.
pub(super) fn wait(here: &RegionalClient, report: &Report, id: &str) -> Result<bool> {
    let step = report.step(format!("image {}", here.region));
    let started = Instant::now();
    let ended = here.retry().until(|| {
        let found = here.image(id)?;
        let is_gone = found.is_none() && started.elapsed() > here.retry().settle_timeout;
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
