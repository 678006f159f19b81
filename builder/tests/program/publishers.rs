//! Several publishers of one disk in one account, and calls that AWS remembers.

use crate::cloud::{Cloud, Fate};
use crate::faults::{disk_of, is_whole, publish_with, publish_within, retry};
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
