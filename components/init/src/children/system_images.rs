//! `init system-images TASK IMAGE…` has containerd keep images, or waits until it does not keep
//! them any more. It writes [`Line`]s to its standard output.
//!
//! containerd keeps an image whose record has the label of the CRI plugin for pinned images: the
//! kubelet lists it as pinned, and does not remove it when the disk is full.

use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{SystemImageName, SystemImageState};
use prost::Message;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use super::api::{
    Connection, Event, FieldMask, GetImage, GetImageAnswer, Ignored, Image, ListImages,
    ListImagesAnswer, OfImage, UpdateImage, describe,
};
use super::load::{PINNED, SHIPPED};
use crate::host::system_images::{Line, Task};

/// The label of images that settings have the node keep.
const KEPT: &str = "osbuild.system";
/// The value of that label.
const YES: &str = "true";
/// The value of the label of pinned images.
const IS_PINNED: &str = "pinned";
/// The labels that such an image has beside those of the CRI plugin.
const LABELS: [(&str, &str); 2] = [(PINNED, IS_PINNED), (KEPT, YES)];
/// The topics of the events of image records.
const TOPICS: &str = "topic~=\"^/images/(delete|update)$\"";

/// How long to watch at once: the child then ends and is started again.
const WATCH: Duration = Duration::from_secs(600);
/// How long the CRI plugin may take to find an image that containerd has.
const FIND_TIMEOUT: Duration = Duration::from_secs(5);
/// How often to ask it.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs the task that the arguments name.
pub async fn run(arguments: &[&str]) -> Outcome {
    let (task, names) = arguments.split_first().ok_or_else(|| Failure::new("there is no task"))?;
    let task = Task::of_word(task).ok_or_else(|| Failure::new("there is no such task"))?;
    let names: Result<Vec<SystemImageName>, _> =
        names.iter().map(|name| SystemImageName::parse(name)).collect();
    let names = names.map_err(|refusal| Failure::new(refusal.reason))?;
    let mut containerd = Connection::open().await?;
    match task {
        Task::Keep => keep(&mut containerd, &names).await,
        Task::Watch => match timeout(WATCH, changed(&mut containerd, &names)).await {
            Ok(outcome) => outcome.map(|()| println!("{}", Line::Changed.encode())),
            Err(_) => Ok(()),
        },
    }
}

/// Removes the labels of all images that earlier settings have had the node keep: those of now are
/// pinned again.
pub async fn release_all(containerd: &mut Connection) -> Outcome {
    release_others(containerd, &[]).await
}

async fn keep(containerd: &mut Connection, names: &[SystemImageName]) -> Outcome {
    release_others(containerd, names).await?;
    for name in names {
        let line = match keep_one(containerd, name).await {
            Ok((true, state)) => Line::Pulled(name.clone(), state),
            Ok((false, state)) => Line::Kept(name.clone(), state),
            Err(failure) => Line::Failed(name.clone(), failure.to_string()),
        };
        println!("{}", line.encode());
    }
    Ok(())
}

/// Has containerd keep one. Returns whether it was pulled, and its state.
async fn keep_one(
    containerd: &mut Connection,
    name: &SystemImageName,
) -> Outcome<(bool, SystemImageState)> {
    let found = record(containerd, name.as_str()).await?;
    let is_missing = found.is_none();
    let image = match found {
        Some(image) => image,
        None => {
            containerd.pull_image(name.as_str()).await.map_err(describe).explain("pull it")?;
            let pulled = record(containerd, name.as_str()).await?;
            pulled.ok_or_else(|| Failure::new("containerd lacks it after it was pulled"))?
        }
    };
    if !is_kept(&image) {
        set_labels(containerd, &image, &LABELS).await?;
    }
    let digest = image.target.map(|target| target.digest).unwrap_or_default();
    let bytes = size(containerd, name).await?;
    Ok((is_missing, SystemImageState { digest, bytes }))
}

/// The size of the image, as soon as the CRI plugin has it: it follows containerd's events.
async fn size(containerd: &mut Connection, name: &SystemImageName) -> Outcome<u64> {
    let since = Instant::now();
    loop {
        let found = containerd.image(name.as_str()).await.map_err(describe);
        match found.explain("ask for its size")? {
            Some(image) => return Ok(image.bytes),
            None if since.elapsed() > FIND_TIMEOUT => {
                return Err(Failure::new("containerd's plugin for the kubelet (CRI) lacks it"));
            }
            None => sleep(INTERVAL).await,
        }
    }
}

/// Returns as soon as an image is not kept.
async fn changed(containerd: &mut Connection, names: &[SystemImageName]) -> Outcome {
    let mut events = containerd.events(TOPICS).await.map_err(describe).explain("follow images")?;
    // A change from now on has an event.
    for name in names {
        if !record(containerd, name.as_str()).await?.is_some_and(|image| is_kept(&image)) {
            return Ok(());
        }
    }
    loop {
        let event = events.message().await.map_err(describe).explain("follow images")?;
        let Some(Event { event: Some(event) }) = event else {
            return Err(Failure::new("containerd has ended its events"));
        };
        let OfImage { name } = OfImage::decode(event.value.as_slice()).unwrap_or_default();
        if names.iter().any(|one| one.as_str() == name)
            && !record(containerd, &name).await?.is_some_and(|image| is_kept(&image))
        {
            return Ok(());
        }
    }
}

/// Releases the images that other settings have had the node keep: the kubelet may remove them.
async fn release_others(containerd: &mut Connection, names: &[SystemImageName]) -> Outcome {
    let filters = vec![format!("labels.\"{KEPT}\"=={YES}")];
    let listed =
        containerd.call("/containerd.services.images.v1.Images/List", ListImages { filters }).await;
    let ListImagesAnswer { images } = listed.map_err(describe).explain("list the images")?;
    for image in images {
        if names.iter().any(|name| name.as_str() == image.name) {
            continue;
        }
        // The images of the node stay pinned.
        let pinned = if image.labels.contains_key(SHIPPED) { IS_PINNED } else { "" };
        set_labels(containerd, &image, &[(PINNED, pinned), (KEPT, "")]).await?;
    }
    Ok(())
}

fn is_kept(image: &Image) -> bool {
    LABELS.iter().all(|(key, value)| image.labels.get(*key).is_some_and(|found| found == value))
}

/// The record of an image. `None` if there is none.
async fn record(containerd: &mut Connection, name: &str) -> Outcome<Option<Image>> {
    let get = GetImage { name: name.to_owned() };
    match containerd.call("/containerd.services.images.v1.Images/Get", get).await {
        Ok(GetImageAnswer { image }) => Ok(image),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(describe(status)).explain("ask for the image"),
    }
}

/// Sets labels of an image, and leaves the others. An empty value removes a label.
async fn set_labels(
    containerd: &mut Connection,
    image: &Image,
    labels: &[(&str, &str)],
) -> Outcome {
    let paths = labels.iter().map(|(key, _)| format!("labels.{key}")).collect();
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    // The mask leaves the target out, and containerd crashes without one.
    let image = Image { labels: labels.collect(), ..image.clone() };
    let name = image.name.clone();
    let update = UpdateImage { image: Some(image), mask: Some(FieldMask { paths }) };
    let updated =
        containerd.call::<_, Ignored>("/containerd.services.images.v1.Images/Update", update).await;
    updated.map(drop).map_err(describe).explain(format_args!("label the image {name}"))
}
