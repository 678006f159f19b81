//! Several publishers of one disk in one account, and calls that AWS remembers.

use crate::cloud::{Cloud, Fate};
use crate::faults::{
    HOME, client, credentials, disk_of, is_whole, options, publish_with, publish_within, retry,
    subject,
};
use osbuild::report::{Color, Report, Verbosity};
use osbuild::ship::aws::publish;
use osbuild_aws::Retry;
use std::path::Path;
use std::time::Duration;

/// A cloud with a snapshot that has every block of a disk, but neither its end nor a note of how
/// much has arrived.
fn with_all_blocks(path: &Path) -> Cloud {
    let cloud = Cloud::start();
    cloud.fates(|call, _| if call.action == "CompleteSnapshot" { Fate::Lost } else { Fate::Done });
    assert!(publish_with(&cloud, path, 1).is_err());
    let mut state = cloud.state.lock().unwrap();
    state.slow = 20;
    state.snapshots.values_mut().for_each(|snapshot| drop(snapshot.tags.remove("osbuild:sent")));
    drop(state);
    cloud
}

#[test]
fn a_snapshot_that_another_publisher_completes_is_awaited_and_used() {
    let (_folder, path) = disk_of(40);
    for (action, moment) in [("PutSnapshotBlock", 3), ("CompleteSnapshot", 1)] {
        let (cloud, mut count) = (with_all_blocks(&path), 0);
        cloud.fates(move |call, _| {
            count += u32::from(call.action == action);
            if call.action == action && count == moment { Fate::Overtaken } else { Fate::Done }
        });
        // The tag shows that AWS accepted it: no other sign of that is needed.
        let at_once = Retry { settle_timeout: Duration::ZERO, ..retry(1) };
        let published = publish_within(&cloud, &path, at_once)
            .unwrap_or_else(|error| panic!("{action}: {error}"));
        is_whole(&cloud, &path, &published);
        let calls = ["StartSnapshot", "DeleteSnapshot"].map(|action| cloud.calls(action).len());
        assert_eq!(calls, [0; 2], "{action}");
    }
}

/// Publishes a disk of this commit, once each region's image of the last publish is available.
fn publish_commit(cloud: &Cloud, path: &Path, commit: &str) {
    let retry = retry(1);
    let mut subject = subject(path);
    subject.tags.push(("osbuild:commit".to_owned(), commit.to_owned()));
    let client = client(cloud, credentials(&retry, &[]), retry);
    let report = Report::new(Verbosity::Quiet, Color::Never);
    let published = publish(&client, &report, &subject, &options())
        .unwrap_or_else(|error| panic!("{commit}: {error}"));
    is_whole(cloud, path, &published);
}

#[test]
fn a_removed_image_can_be_published_again_with_other_tags() {
    let (_folder, path) = disk_of(3);
    let cloud = Cloud::start();
    publish_commit(&cloud, &path, "one");
    {
        let mut state = cloud.state.lock().unwrap();
        state.images.clear();
        state.snapshots.clear();
    }
    publish_commit(&cloud, &path, "two");
    {
        let mut state = cloud.state.lock().unwrap();
        state.images.retain(|(region, _), _| region == HOME);
        state.snapshots.retain(|(region, _), _| region == HOME);
    }
    publish_commit(&cloud, &path, "three");
    let state = cloud.state.lock().unwrap();
    let copy = state.images.iter().find(|((region, _), _)| region != HOME).unwrap();
    assert_eq!(copy.1.tags["osbuild:commit"], "three");
}

#[test]
fn an_image_whose_registration_was_not_heard_is_found_once_aws_lists_it() {
    let (_folder, path) = disk_of(3);
    let cloud = Cloud::start();
    cloud.state.lock().unwrap().unseen = 2;
    let mut count = 0;
    cloud.fates(move |call, _| {
        count += u32::from(call.action == "RegisterImage");
        let is_first = call.action == "RegisterImage" && count == 1;
        if is_first { Fate::DoneUnheard } else { Fate::Done }
    });
    let published = publish_with(&cloud, &path, 5).unwrap();
    is_whole(&cloud, &path, &published);
}
