//! Makes containerd forget the node's own images on DATA: the records of their blobs, and their
//! unpacked snapshots.

use std::collections::BTreeSet;

use osbuild_failure::{Explain, Failure, Outcome};
use tonic::{Code, Status};

use super::api::{
    Connection, CreateLease, DeleteContent, DeleteLease, Ignored, Labels, ListLeases,
    ListLeasesAnswer, ListSnapshots, RemoveSnapshot, Snapshot, describe, unless_exists,
};
use super::layout::Image;

/// The snapshotter of `containerd.toml`.
const SNAPSHOTTER: &str = "overlayfs";

/// The lease whose deletion makes containerd collect everything unreferenced.
const LEASE: &str = "osbuild-forget";

/// Forgets these images, and all snapshots on top of them: those of the containers of earlier
/// boots, none of which runs.
pub async fn images(containerd: &mut Connection, images: &[Image]) -> Outcome {
    let snapshots = list(containerd).await?;
    let unpacked: BTreeSet<&str> =
        images.iter().flat_map(|image| image.chain.iter().map(String::as_str)).collect();
    let mut left = BTreeSet::new();
    for key in on_top_of(&unpacked, &snapshots) {
        let remove = RemoveSnapshot { snapshotter: SNAPSHOTTER.to_owned(), key: key.to_owned() };
        match containerd
            .call::<_, Ignored>("/containerd.services.snapshots.v1.Snapshots/Remove", remove)
            .await
        {
            Err(status) if status.code() == Code::FailedPrecondition => drop(left.insert(key)),
            removed => {
                unless_missing(removed).explain(format_args!("remove the snapshot {key}"))?
            }
        }
    }
    for blob in images.iter().flat_map(Image::blobs) {
        let delete = DeleteContent { digest: blob.digest.clone() };
        let deleted = containerd
            .call::<_, Ignored>("/containerd.services.content.v1.Content/Delete", delete)
            .await;
        unless_missing(deleted).explain(format_args!("forget {}", blob.digest))?;
    }
    if left.is_empty() { Ok(()) } else { collect(containerd, &left).await }
}

/// Has containerd collect these snapshots, to which nothing refers any more. It refuses to remove a
/// snapshot with a child, and after it has collected a child, such as that of a container that was
/// never finished, it still counts it (containerd's issue 11908). Collection ignores children.
async fn collect(containerd: &mut Connection, snapshots: &BTreeSet<&str>) -> Outcome {
    let lease = CreateLease { id: LEASE.to_owned(), labels: Labels::new() };
    let made =
        containerd.call::<_, Ignored>("/containerd.services.leases.v1.Leases/Create", lease).await;
    unless_exists(made.map(drop)).explain("make a lease")?;
    // Leases of an earlier boot hold snapshots by their names, and their work was interrupted.
    let listed = containerd.call("/containerd.services.leases.v1.Leases/List", ListLeases {}).await;
    let ListLeasesAnswer { leases } = listed.map_err(describe).explain("list the leases")?;
    for lease in leases {
        let delete = DeleteLease { id: lease.id, sync: true };
        let ended = containerd
            .call::<_, Ignored>("/containerd.services.leases.v1.Leases/Delete", delete)
            .await;
        unless_missing(ended).explain("end a lease")?;
    }
    match list(containerd).await?.into_iter().find(|one| snapshots.contains(one.name.as_str())) {
        Some(kept) => {
            Err(Failure::new(format!("containerd does not release the snapshot {}", kept.name)))
        }
        None => Ok(()),
    }
}

async fn list(containerd: &mut Connection) -> Outcome<Vec<Snapshot>> {
    let listed =
        containerd.list_snapshots(ListSnapshots { snapshotter: SNAPSHOTTER.to_owned() }).await;
    listed.map_err(|status| status.to_string()).explain("list the snapshots")
}

/// The snapshots with these names and all on top of them, topmost first.
fn on_top_of<'a>(names: &BTreeSet<&'a str>, snapshots: &'a [Snapshot]) -> Vec<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    loop {
        let is_on_top = |one: &&Snapshot| {
            names.contains(one.name.as_str()) || found.contains(one.parent.as_str())
        };
        let all: BTreeSet<&str> =
            snapshots.iter().filter(is_on_top).map(|one| one.name.as_str()).collect();
        if all.len() == found.len() {
            break;
        }
        found = all;
    }
    let mut ordered = Vec::new();
    while !found.is_empty() {
        let parents = snapshots
            .iter()
            .filter(|one| found.contains(one.name.as_str()))
            .map(|one| one.parent.as_str());
        let parents: BTreeSet<&str> = parents.collect();
        let (below, top): (BTreeSet<&str>, BTreeSet<&str>) =
            found.iter().partition(|name| parents.contains(**name));
        // A circle of parents has no top. containerd refuses to remove it, which is a failure.
        found = if top.is_empty() { BTreeSet::new() } else { below.clone() };
        ordered.extend(if top.is_empty() { below } else { top });
    }
    ordered
}

fn unless_missing(result: Result<Ignored, Status>) -> Result<(), String> {
    match result {
        Err(status) if status.code() == Code::NotFound => Ok(()),
        other => other.map(|Ignored {}| ()).map_err(describe),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshots(rows: &[(&str, &str)]) -> Vec<Snapshot> {
        rows.iter()
            .map(|(name, parent)| Snapshot {
                name: (*name).to_owned(),
                parent: (*parent).to_owned(),
            })
            .collect()
    }

    #[test]
    fn snapshots_on_an_image_are_removed_before_it_and_others_stay() {
        let all = snapshots(&[
            ("ours", ""),
            ("container", "ours"),
            ("other", ""),
            ("users", "other"),
            ("planted", "container"),
        ]);
        assert_eq!(on_top_of(&["ours"].into(), &all), ["planted", "container", "ours"]);
        assert_eq!(on_top_of(&["gone"].into(), &all), [""; 0]);
    }

    #[test]
    fn an_image_of_two_layers_is_removed_from_the_top() {
        let all = snapshots(&[("container", "upper"), ("lower", ""), ("upper", "lower")]);
        assert_eq!(on_top_of(&["lower", "upper"].into(), &all), ["container", "upper", "lower"]);
    }

    proptest! {
        #[test]
        fn any_records_are_ordered_with_each_snapshot_once(
            rows in prop::collection::vec(("[a-f]", "[a-f]?"), 0..12),
        ) {
            let all: Vec<Snapshot> =
                rows.into_iter().map(|(name, parent)| Snapshot { name, parent }).collect();
            let found = on_top_of(&["a", "b"].into(), &all);
            prop_assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
            for one in &all {
                let goes = ["a", "b"].contains(&one.name.as_str())
                    || found.contains(&one.parent.as_str());
                prop_assert!(!goes || found.contains(&one.name.as_str()));
            }
        }
    }
}
