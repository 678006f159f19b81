//! `init images`: loads the pod images that came with the node into containerd, anew at each boot
//! (see [`crate::data::old_images`]).
//!
//! Nothing is unpacked here: containerd does that when the first container of an image is made.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use osbuild_abi::paths::IMAGES;
use osbuild_failure::{Explain, Failure, Outcome};
use tonic::Code;

use super::api::{
    Connection, CreateLease, DeleteImage, DeleteLease, Descriptor, Ignored, Image, Labels,
    ListImages, ListImagesAnswer, PutImage, WriteAction, WriteContent, describe, unless_exists,
};
use super::forget;
use super::layout::{self, Blob};
use super::system_images;

/// The lease that holds the blobs until their images exist.
const LEASE: &str = "osbuild-images";
/// The label of the images that come with the node, so that a later release can remove those that
/// it does not have any more.
pub const SHIPPED: &str = "osbuild.shipped";
/// The label of images that the CRI plugin shows to the kubelet as pinned: it never removes them.
pub const PINNED: &str = "io.cri-containerd.pinned";
/// The bytes of one message. containerd accepts 16 MiB at most.
const PIECE: usize = 1 << 20;

/// How long containerd may take until the kubelet can find the images.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often to ask for them.
const INTERVAL: Duration = Duration::from_millis(20);

/// Loads all images of the layout, and removes those of an earlier release of the node. It does not
/// use anything that containerd has kept of them.
pub async fn images() -> Outcome {
    let layout = Path::new(IMAGES);
    let images = layout::read(layout)?;
    let mut containerd = Connection::open().await?;
    forget::images(&mut containerd, &images).await?;
    let lease = CreateLease { id: LEASE.to_owned(), labels: Labels::new() };
    let made =
        containerd.call::<_, Ignored>("/containerd.services.leases.v1.Leases/Create", lease).await;
    unless_exists(made.map(drop)).explain("make a lease")?;
    containerd.use_lease(LEASE);
    for image in &images {
        load(&mut containerd, layout, image).await.explain(format_args!("load {}", image.name))?;
    }
    remove_others(&mut containerd, &images).await?;
    system_images::release_all(&mut containerd).await?;
    let lease = DeleteLease { id: LEASE.to_owned(), sync: false };
    containerd
        .call::<_, Ignored>("/containerd.services.leases.v1.Leases/Delete", lease)
        .await
        .explain("end the lease")?;
    for image in &images {
        found(&mut containerd, image).await?;
    }
    Ok(())
}

/// Waits until a pod that asks for the image gets this one, and not another one that had its name
/// when containerd started.
async fn found(containerd: &mut Connection, image: &layout::Image) -> Outcome {
    let since = Instant::now();
    loop {
        let id = containerd.image_id(&image.name).await;
        if id.as_ref().is_ok_and(|id| *id == image.config.digest) {
            return Ok(());
        }
        // It registers its services before it serves any, so this one does not come later.
        if id.as_ref().is_err_and(|status| status.code() == Code::Unimplemented) {
            return Err(Failure::new("containerd runs without its plugin for the kubelet (CRI)"));
        }
        if since.elapsed() > TIMEOUT {
            return Err(Failure::new(format!(
                "containerd has {id:?} as {}, not {}",
                image.name, image.config.digest
            )));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn load(containerd: &mut Connection, layout: &Path, image: &layout::Image) -> Outcome {
    for blob in image.layers.iter().chain([&image.config]) {
        write(containerd, layout, blob, Labels::new()).await?;
    }
    // The manifest comes last, as its labels refer to the others.
    write(containerd, layout, &image.manifest, references(image)).await?;
    let put = PutImage { image: Some(record(image)) };
    let made = containerd
        .call::<_, Ignored>("/containerd.services.images.v1.Images/Create", put.clone())
        .await;
    match made {
        Err(status) if status.code() == Code::AlreadyExists => {
            let updated = containerd
                .call::<_, Ignored>("/containerd.services.images.v1.Images/Update", put)
                .await;
            updated.map_err(describe).explain("update the image")?;
        }
        other => other.map(|Ignored {}| ()).map_err(describe).explain("make the image")?,
    }
    Ok(())
}

/// Writes one blob, unless containerd has it already.
async fn write(containerd: &mut Connection, layout: &Path, blob: &Blob, labels: Labels) -> Outcome {
    let path = layout::path(layout, blob)?;
    let file = File::open(&path).explain(format_args!("open {}", path.display()))?;
    let pieces = Pieces {
        file,
        digest: blob.digest.clone(),
        size: blob.size as i64,
        offset: 0,
        labels,
        finished: false,
    };
    unless_exists(containerd.write(tokio_stream::iter(pieces)).await)
        .explain(format_args!("write {}", blob.digest))
}

/// The messages that write one blob.
struct Pieces {
    file: File,
    digest: String,
    size: i64,
    offset: i64,
    labels: Labels,
    finished: bool,
}

impl Iterator for Pieces {
    type Item = WriteContent;

    fn next(&mut self) -> Option<WriteContent> {
        if self.finished {
            return None;
        }
        let mut data = Vec::new();
        // After a read error the blob is too short, and containerd refuses it.
        let _ = (&mut self.file).take(PIECE as u64).read_to_end(&mut data);
        self.finished = data.len() < PIECE;
        let offset = self.offset;
        self.offset += data.len() as i64;
        let (action, labels) = match self.finished {
            true => (WriteAction::Commit, std::mem::take(&mut self.labels)),
            false => (WriteAction::Write, Labels::new()),
        };
        let (reference, expected) = (format!("{LEASE}-{}", self.digest), self.digest.clone());
        Some(WriteContent {
            action: action.into(),
            reference,
            total: self.size,
            expected,
            offset,
            data,
            labels,
        })
    }
}

/// The labels by which containerd's garbage collection finds what the manifest needs.
fn references(image: &layout::Image) -> Labels {
    let config = [("containerd.io/gc.ref.content.config".to_owned(), image.config.digest.clone())];
    let layers = image.layers.iter().enumerate();
    let layers = layers.map(|(index, layer)| {
        (format!("containerd.io/gc.ref.content.l.{index}"), layer.digest.clone())
    });
    config.into_iter().chain(layers).collect()
}

/// The record of the image for containerd and its CRI plugin.
fn record(image: &layout::Image) -> Image {
    let labels = [
        // The CRI plugin uses only managed images, and never collects pinned ones.
        ("io.cri-containerd.image", "managed"),
        (PINNED, "pinned"),
        (SHIPPED, "true"),
    ];
    let Blob { media_type, digest, size, .. } = image.manifest.clone();
    Image {
        name: image.name.clone(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        target: Some(Descriptor { media_type, digest, size: size as i64 }),
    }
}

async fn remove_others(containerd: &mut Connection, images: &[layout::Image]) -> Outcome {
    let filters = vec![format!("labels.\"{SHIPPED}\"==true")];
    let listed =
        containerd.call("/containerd.services.images.v1.Images/List", ListImages { filters }).await;
    let listed: ListImagesAnswer = listed.map_err(describe).explain("list the images")?;
    for other in listed
        .images
        .into_iter()
        .filter(|other| images.iter().all(|image| image.name != other.name))
    {
        let name = other.name.clone();
        let removed = containerd
            .call::<_, Ignored>(
                "/containerd.services.images.v1.Images/Delete",
                DeleteImage { name },
            )
            .await;
        removed.map_err(describe).explain(format_args!("remove {}", other.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn pieces(length: usize) -> Vec<WriteContent> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; length]).unwrap();
        file.rewind().unwrap();
        let labels = [("a".to_owned(), "b".to_owned())].into();
        Pieces {
            file,
            digest: "sha256:00".to_owned(),
            size: length as i64,
            offset: 0,
            labels,
            finished: false,
        }
        .collect()
    }

    #[test]
    fn a_blob_of_any_length_is_committed_once_at_its_end() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let pieces = pieces(length);
            let commits =
                pieces.iter().filter(|piece| piece.action() == WriteAction::Commit).count();
            assert_eq!(commits, 1, "{length}");
            let last = pieces.last().unwrap();
            assert_eq!((last.action(), last.labels.len()), (WriteAction::Commit, 1), "{length}");
            assert_eq!(last.offset as usize + last.data.len(), length);
        }
    }

    #[test]
    fn the_pieces_follow_each_other() {
        let mut expected = 0;
        for piece in pieces(2 * PIECE + 5) {
            assert_eq!(piece.offset, expected);
            expected += piece.data.len() as i64;
        }
    }
}
