//! Failures of publishing to AWS, and the resources that remain there.

use crate::cloud::{ACCESS_KEY, Call, Cloud, Fate, SECRET_KEY, SESSION_TOKEN};
use crate::http::Server;
use osbuild::error::{Error, Result};
use osbuild::plan::{Architecture, Date};
use osbuild::produce::aws::stoppable;
use osbuild::report::{Color, Report, Verbosity};
use osbuild::ship::aws::{Content, OWNER, Options, Published, Subject, publish, tags};
use osbuild_aws::{BLOCK_SIZE, Client, Credentials, Retry, Service};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

pub const HOME: &str = "eu-central-1";
const OTHER: &str = "us-east-1";

/// A disk with 150 non-zero blocks: its upload tags the progress twice before the end.
fn disk() -> (TempDir, PathBuf) {
    disk_of(150)
}

/// A disk with this many non-zero blocks, and a third as many zero blocks.
pub fn disk_of(blocks: usize) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let mut bytes = vec![0; blocks * 4 / 3 * BLOCK_SIZE + 12_345];
    for index in (0..blocks).map(|number| number + number / 3) {
        bytes[index * BLOCK_SIZE + 77] = 1 + (index % 255) as u8;
    }
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

pub fn subject(path: &Path) -> Subject {
    let content = Content::read(path).unwrap();
    Subject {
        tags: tags("small", &content.digest.hex(), &[(OWNER, "team".into())]),
        content,
        recipe: "small".into(),
        version: "1.2.3".into(),
        architecture: Architecture::Amd64,
        uefi_data: Some("QU1aTg==".into()),
    }
}

pub fn retry(tries: u32) -> Retry {
    let pause = Duration::from_millis(3);
    let timeout = Duration::from_secs(20);
    stoppable(Retry {
        connect_timeout: timeout,
        idle_timeout: timeout,
        tries,
        first_pause: pause,
        max_pause: pause,
        max_poll_pause: pause,
        settle_timeout: Duration::from_secs(3),
        operation_timeout: timeout,
        ..Retry::default()
    })
}

pub fn credentials(retry: &Retry, more: &[(&str, &str)]) -> Credentials {
    let own = [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)];
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let variables = own.iter().chain(more).map(text).collect::<HashMap<_, _>>();
    Credentials::from_variables(retry, variables).unwrap()
}

pub fn client(cloud: &Cloud, credentials: Credentials, retry: Retry) -> Client {
    let addresses =
        [Service::Ebs, Service::Ec2, Service::Kms].map(|service| (service, cloud.address.clone()));
    Client::new(credentials, retry, addresses.into()).unwrap()
}

pub fn options() -> Options {
    Options {
        region: HOME.parse().unwrap(),
        copies: vec![OTHER.parse().unwrap()],
        share: vec!["111122223333".into()],
        public: false,
        deprecate: Some(Date { year: 2999, month: 1, day: 1 }),
        prune: Some(2),
        today: Date { year: 2026, month: 11, day: 23 },
    }
}

pub fn publish_with(cloud: &Cloud, path: &Path, tries: u32) -> Result<Published> {
    publish_within(cloud, path, retry(tries))
}

pub fn publish_within(cloud: &Cloud, path: &Path, retry: Retry) -> Result<Published> {
    let credentials = credentials(&retry, &[]);
    publish(
        &client(cloud, credentials, retry),
        &Report::new(Verbosity::Quiet, Color::Never),
        &subject(path),
        &options(),
    )
}

/// Asserts that each region has one image and one snapshot with the whole disk, and that no call
/// was wrong.
#[track_caller]
pub fn is_whole(cloud: &Cloud, path: &Path, published: &Published) {
    cloud.assert_no_mistakes();
    let state = cloud.state.lock().unwrap();
    let content = Content::read(path).unwrap();
    let images: BTreeMap<_, _> = published
        .images
        .iter()
        .map(|(region, id)| ((region.name().to_owned(), id.clone()), ()))
        .collect();
    assert_eq!(state.images.keys().collect::<Vec<_>>(), images.keys().collect::<Vec<_>>());
    let used: BTreeSet<_> = state
        .images
        .iter()
        .map(|((region, _), image)| (region.clone(), image.snapshot.clone()))
        .collect();
    assert_eq!(state.snapshots.keys().cloned().collect::<BTreeSet<_>>(), used);
    for snapshot in state.snapshots.values() {
        assert_eq!(snapshot.state, "completed");
        assert_eq!(snapshot.blocks.len(), content.blocks.len());
        let same = |(index, _): &(u32, [u8; 32])| snapshot.blocks.contains_key(index);
        assert!(content.blocks.iter().all(same));
    }
}

#[test]
fn a_crash_at_any_call_leaves_no_orphan_and_no_second_image() {
    // The upload tags the progress once before the end.
    let (_folder, path) = disk_of(66);
    let cloud = Cloud::start();
    publish_with(&cloud, &path, 1).unwrap();
    let all = cloud.names();
    // The first block, one between and the last one represent all blocks.
    let puts: Vec<usize> =
        (0..all.len()).filter(|number| all[*number] == "PutSnapshotBlock").collect();
    let is_tested =
        |number: &usize| !puts.contains(number) || [puts[0], puts[33], puts[65]].contains(number);
    let moments: Vec<usize> = (0..all.len()).filter(is_tested).collect();
    assert!(moments.len() > 20, "{all:?}");
    for moment in moments {
        for last in [Fate::Lost, Fate::DoneUnheard] {
            let cloud = Cloud::start();
            // After a crash there are no more calls, and this machine keeps no state for the next
            // publish.
            let fate = last.clone();
            cloud.fates(move |_, count| match count {
                before if before < moment => Fate::Done,
                now if now == moment => fate.clone(),
                _ => Fate::Lost,
            });
            let broken = publish_with(&cloud, &path, 1);
            assert!(broken.is_err(), "{moment} {last:?}");
            cloud.fates(|_, _| Fate::Done);
            let published = publish_with(&cloud, &path, 1)
                .unwrap_or_else(|error| panic!("{} {last:?}: {error}", all[moment]));
            is_whole(&cloud, &path, &published);
        }
    }
}

/// Publishes a disk and keeps this many of the recipe's images, or all.
fn publish_keeping(cloud: &Cloud, path: &Path, keep: Option<usize>) -> Result<Published> {
    let retry = retry(1);
    let client = client(cloud, credentials(&retry, &[]), retry);
    publish(
        &client,
        &Report::new(Verbosity::Quiet, Color::Never),
        &subject(path),
        &Options { prune: keep, ..options() },
    )
}

/// The regions and names of all images, after checking that every snapshot belongs to one.
#[track_caller]
fn images_without_orphans(cloud: &Cloud) -> Vec<(String, String)> {
    cloud.assert_no_mistakes();
    let state = cloud.state.lock().unwrap();
    let used: BTreeSet<_> = state
        .images
        .iter()
        .map(|((region, _), image)| (region.clone(), image.snapshot.clone()))
        .collect();
    assert_eq!(state.snapshots.keys().cloned().collect::<BTreeSet<_>>(), used);
    let mut names: Vec<_> = state
        .images
        .iter()
        .map(|((region, _), image)| (region.clone(), image.parameters["Name"].clone()))
        .collect();
    names.sort();
    names
}

#[test]
fn an_interrupted_prune_is_completed_next_time_without_orphans() {
    let disks: Vec<_> = (1..=4).map(disk_of).collect();
    let (newest, others) = disks.split_last().unwrap();
    let filled = || {
        let cloud = Cloud::start();
        others.iter().for_each(|(_, path)| assert!(publish_keeping(&cloud, path, None).is_ok()));
        cloud.fates(|_, _| Fate::Done);
        cloud
    };
    let cloud = filled();
    publish_keeping(&cloud, &newest.1, Some(2)).unwrap();
    let (all, expected) = (cloud.names(), images_without_orphans(&cloud));
    let removes =
        |number: &usize| ["DeregisterImage", "DeleteSnapshot"].contains(&all[*number].as_str());
    let moments: Vec<usize> = (0..all.len()).filter(removes).collect();
    assert_eq!((moments.len(), expected.len()), (2 * 2 * 2, 2 * 2), "{all:?}");
    for moment in moments {
        for last in [Fate::Lost, Fate::DoneUnheard] {
            let (cloud, fate) = (filled(), last.clone());
            cloud.fates(move |_, count| match count {
                before if before < moment => Fate::Done,
                now if now == moment => fate.clone(),
                _ => Fate::Lost,
            });
            assert!(publish_keeping(&cloud, &newest.1, Some(2)).is_err(), "{moment} {last:?}");
            cloud.fates(|_, _| Fate::Done);
            let again = publish_keeping(&cloud, &newest.1, Some(2))
                .unwrap_or_else(|error| panic!("{moment} {last:?}: {error}"));
            assert!(again.was_there);
            assert_eq!(images_without_orphans(&cloud), expected, "{} {last:?}", all[moment]);
        }
    }
}

#[test]
fn an_interrupted_upload_continues_after_the_blocks_sent() {
    let (_folder, path) = disk();
    let cloud = Cloud::start();
    let mut puts = 0;
    cloud.fates(move |call, _| {
        puts += u32::from(call.action == "PutSnapshotBlock");
        if puts > 140 { Fate::Lost } else { Fate::Done }
    });
    assert!(publish_with(&cloud, &path, 1).is_err());
    cloud.fates(|_, _| Fate::Done);
    let published = publish_with(&cloud, &path, 1).unwrap();
    is_whole(&cloud, &path, &published);
    assert_eq!(cloud.calls("StartSnapshot").len(), 0);
    let again = cloud.calls("PutSnapshotBlock").len();
    assert!(again <= 150 - 64, "{again} blocks were sent again");
}

#[test]
fn temporary_failures_are_retried_and_others_reported_immediately() {
    let (_folder, path) = disk();
    let temporary = [
        Fate::Refused(503, "RequestLimitExceeded"),
        Fate::Refused(400, "ThrottlingException"),
        Fate::Refused(500, "InternalError"),
        Fate::Lost,
        Fate::DoneUnheard,
    ];
    for fate in temporary {
        let cloud = Cloud::start();
        let kept = fate.clone();
        cloud.fates(move |_, count| if count % 3 == 1 { kept.clone() } else { Fate::Done });
        let published =
            publish_with(&cloud, &path, 30).unwrap_or_else(|error| panic!("{fate:?}: {error}"));
        is_whole(&cloud, &path, &published);
    }
    let cloud = Cloud::start();
    cloud.fates(|call, _| {
        if call.action == "RegisterImage" {
            Fate::Refused(403, "UnauthorizedOperation")
        } else {
            Fate::Done
        }
    });
    let error = publish_with(&cloud, &path, 30).err().unwrap().to_string();
    assert!(error.starts_with("error: ec2:RegisterImage failed in eu-central-1\n"), "{error}");
    assert!(
        error.contains("caused by: UnauthorizedOperation: as the test requires")
            && error.contains("hint: allow `ec2:RegisterImage`"),
        "{error}"
    );
    assert_eq!(cloud.calls("RegisterImage").len(), 1);
    for action in ["PutSnapshotBlock", "CreateTags", "CompleteSnapshot"] {
        let cloud = Cloud::start();
        cloud.fates(move |call, _| {
            if call.action == action {
                Fate::Refused(403, "AccessDeniedException")
            } else {
                Fate::Done
            }
        });
        let error = publish_with(&cloud, &path, 30).err().unwrap().to_string();
        assert!(
            error.contains(&format!(":{action} failed")) && error.contains(&format!(":{action}`")),
            "{error}"
        );
    }
}

#[test]
fn a_connection_that_hangs_is_replaced() {
    let (_folder, path) = disk();
    let cloud = Cloud::start();
    let hangs = |call: &Call| call.path.ends_with("/blocks/0") || call.action == "RegisterImage";
    let mut hung = BTreeSet::new();
    cloud.fates(move |call, _| {
        if hangs(call) && hung.insert(call.action.clone()) { Fate::Hung } else { Fate::Done }
    });
    let published =
        publish_within(&cloud, &path, Retry { idle_timeout: Duration::from_secs(2), ..retry(5) })
            .unwrap();
    is_whole(&cloud, &path, &published);
}

#[test]
fn a_snapshot_with_wrong_bytes_is_replaced() {
    let (_folder, path) = disk();
    let cloud = Cloud::start();
    cloud.fates(|call, _| if call.action == "CompleteSnapshot" { Fate::Lost } else { Fate::Done });
    assert!(publish_with(&cloud, &path, 1).is_err());
    let other = cloud
        .state
        .lock()
        .unwrap()
        .snapshots
        .values_mut()
        .next()
        .map(|snapshot| snapshot.blocks.insert(0, vec![7; BLOCK_SIZE]));
    assert!(other.is_some());
    cloud.fates(|_, _| Fate::Done);
    let published = publish_with(&cloud, &path, 1).unwrap();
    is_whole(&cloud, &path, &published);
    assert_eq!((cloud.calls("DeleteSnapshot").len(), cloud.calls("StartSnapshot").len()), (1, 1));
}

#[test]
fn a_snapshot_that_failed_at_aws_is_replaced() {
    let (_folder, path) = disk();
    let cloud = Cloud::start();
    cloud.fates(|call, _| if call.path.ends_with("/blocks/4") { Fate::Lost } else { Fate::Done });
    assert!(publish_with(&cloud, &path, 1).is_err());
    cloud
        .state
        .lock()
        .unwrap()
        .snapshots
        .values_mut()
        .for_each(|snapshot| snapshot.state = "error".into());
    cloud.fates(|_, _| Fate::Done);
    let published = publish_with(&cloud, &path, 1).unwrap();
    is_whole(&cloud, &path, &published);
}

#[test]
fn a_block_that_changes_after_it_was_read_is_refused() {
    let (_folder, path) = disk();
    let cloud = Cloud::start();
    let subject = subject(&path);
    // The file changes after it was first read, so its blocks have different digests.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5] = 9;
    std::fs::write(&path, bytes).unwrap();
    let retry = retry(2);
    let client = client(&cloud, credentials(&retry, &[]), retry);
    let error =
        publish(&client, &Report::new(Verbosity::Quiet, Color::Never), &subject, &options())
            .err()
            .unwrap()
            .to_string();
    assert!(error.contains("no snapshot in eu-central-1 takes the image"), "{error}");
    let state = cloud.state.lock().unwrap();
    assert!(state.images.is_empty() && state.snapshots.is_empty());
    assert!(
        state.wrong.iter().any(|wrong| wrong == "block 0 does not match its checksum"),
        "{:?}",
        state.wrong
    );
}

#[test]
fn expired_credentials_are_renewed_or_reported_and_never_shown() {
    let (folder, path) = disk();
    let cloud = Cloud::start();
    cloud.state.lock().unwrap().expired = true;
    let file = folder.path().join("credentials");
    let write = |token: &str| {
        let text = format!(
            "[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n\
             aws_session_token={token}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write(SESSION_TOKEN);
    let retry = retry(3);
    let variables =
        HashMap::from([("AWS_SHARED_CREDENTIALS_FILE".to_owned(), file.display().to_string())]);
    let run = || -> std::result::Result<Published, Error> {
        let client = client(
            &cloud,
            Credentials::from_variables(&retry, variables.clone()).unwrap(),
            retry.clone(),
        );
        publish(&client, &Report::new(Verbosity::Quiet, Color::Never), &subject(&path), &options())
    };
    let error = run().err().unwrap();
    let output = format!("{error}{error:?}");
    assert!(
        output.contains("caused by: ExpiredToken: the token has expired")
            && output.contains("hint: get new credentials"),
        "{output}"
    );
    assert!(
        [ACCESS_KEY, SECRET_KEY, SESSION_TOKEN].iter().all(|secret| !output.contains(secret)),
        "{output}"
    );
    // New credentials are written during the publish.
    let (fresh, mut count) = (file.clone(), 0);
    cloud.state.lock().unwrap().expired = false;
    cloud.fates(move |call, _| {
        count += 1;
        if count == 40 {
            let text = std::fs::read_to_string(&fresh).unwrap().replace(SESSION_TOKEN, "another");
            std::fs::write(&fresh, text).unwrap();
        }
        let old =
            call.headers.get("x-amz-security-token").is_some_and(|token| token == SESSION_TOKEN);
        if count >= 40 && old { Fate::Refused(400, "ExpiredTokenException") } else { Fate::Done }
    });
    is_whole(&cloud, &path, &run().unwrap());
}

#[test]
fn containers_and_instances_provide_credentials() {
    let (_folder, path) = disk_of(3);
    let server = Server::start();
    let json = format!(
        r#"{{"Code":"Success","AccessKeyId":"{ACCESS_KEY}","SecretAccessKey":"{SECRET_KEY}",
            "Token":"t","Expiration":"2999-01-01T00:00:00Z"}}"#
    );
    let roles = "/latest/meta-data/iam/security-credentials/";
    server.put("/container".into(), 200, json.as_bytes());
    server.put("/latest/api/token".into(), 200, b"instance-token");
    server.put(roles.into(), 200, b"builder");
    server.put(format!("{roles}builder"), 200, json.as_bytes());
    let container =
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/container", server.address()));
    let instance = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.address().to_owned());
    for (name, value) in [container, instance] {
        let (cloud, retry) = (Cloud::start(), retry(1));
        let found =
            Credentials::from_variables(&retry, HashMap::from([(name.to_owned(), value)])).unwrap();
        let published = publish(
            &client(&cloud, found, retry),
            &Report::new(Verbosity::Quiet, Color::Never),
            &subject(&path),
            &options(),
        );
        is_whole(&cloud, &path, &published.unwrap_or_else(|error| panic!("{name}: {error}")));
        assert!(
            cloud.calls("StartSnapshot")[0]
                .headers
                .get("x-amz-security-token")
                .is_some_and(|token| token == "t")
        );
    }
}

#[test]
fn a_configured_identity_that_fails_is_not_replaced_by_the_instance() {
    let (folder, path) = disk_of(3);
    let server = Server::start();
    let json = format!(
        r#"{{"Code":"Success","AccessKeyId":"{ACCESS_KEY}","SecretAccessKey":"{SECRET_KEY}",
            "Token":"t","Expiration":"2999-01-01T00:00:00Z"}}"#
    );
    let roles = "/latest/meta-data/iam/security-credentials/";
    server.put("/latest/api/token".into(), 200, b"instance-token");
    server.put(roles.into(), 200, b"builder");
    server.put(format!("{roles}builder"), 200, json.as_bytes());
    for refusing in ["/", "/container"] {
        server.put(refusing.into(), 403, b"refused");
    }
    let (token, broken) = (folder.path().join("token"), folder.path().join("broken"));
    std::fs::write(&token, "token").unwrap();
    std::fs::write(&broken, "[default\n").unwrap();
    let address = |path: &str| format!("{}{path}", server.address());
    let identity = vec![
        ("AWS_ENDPOINT_URL_STS", address("")),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.display().to_string()),
        ("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/builder".to_owned()),
    ];
    let container = vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", address("/container"))];
    let files = vec![("AWS_SHARED_CREDENTIALS_FILE", broken.display().to_string())];
    let absent = vec![("AWS_PROFILE", "absent".to_owned())];
    let half = vec![("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned())];
    let no_role = identity[..2].to_vec();
    // An empty variable configures nothing.
    let nothing = vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", String::new())];
    let cases = [
        ("web identity", identity),
        ("container", container),
        ("files", files),
        ("files", absent),
        ("environment", half),
        ("web identity", no_role),
    ];
    for (name, variables) in cases.into_iter().chain([("", nothing)]) {
        let (cloud, retry) = (Cloud::start(), retry(1));
        let instance = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", address(""));
        let variables = variables.into_iter().chain([instance]);
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).collect();
        let found = Credentials::from_variables(&retry, variables).unwrap();
        let published = publish(
            &client(&cloud, found, retry),
            &Report::new(Verbosity::Quiet, Color::Never),
            &subject(&path),
            &options(),
        );
        match published {
            Ok(_) => assert_eq!(name, "", "the instance replaces it"),
            Err(error) => {
                let shown = error.to_string();
                assert!(!name.is_empty() && shown.contains(name), "{name}: {shown}");
                assert_eq!(cloud.names(), Vec::<String>::new());
            }
        }
    }
}

#[test]
fn a_snapshot_that_aws_is_assembling_is_awaited_and_never_removed() {
    let (_folder, path) = disk_of(3);
    // The publish that completed it crashed before the response, before the tag, or after it.
    for crash in [
        ("CompleteSnapshot", Fate::DoneUnheard),
        ("CreateTags", Fate::Lost),
        ("DescribeSnapshots", Fate::Lost),
    ] {
        let cloud = Cloud::start();
        cloud.state.lock().unwrap().slow = 20;
        let (mut is_sealed, (action, fate)) = (false, crash.clone());
        cloud.fates(move |call, _| {
            let is_it = call.action == action && (is_sealed || action == "CompleteSnapshot");
            is_sealed |= call.action == "CompleteSnapshot";
            if is_it { fate.clone() } else { Fate::Done }
        });
        assert!(publish_with(&cloud, &path, 1).is_err(), "{crash:?}");
        cloud.fates(|_, _| Fate::Done);
        let published =
            publish_with(&cloud, &path, 1).unwrap_or_else(|error| panic!("{crash:?}: {error}"));
        is_whole(&cloud, &path, &published);
        let again = ["StartSnapshot", "PutSnapshotBlock", "DeleteSnapshot"]
            .map(|action| cloud.calls(action).len());
        assert_eq!(again, [0; 3], "{crash:?}");
    }
}

#[test]
fn a_sealed_snapshot_is_awaited_for_the_full_operation_timeout() {
    let (_folder, path) = disk_of(3);
    let cloud = Cloud::start();
    cloud.state.lock().unwrap().slow = 100;
    let mut looks = 0;
    cloud.fates(move |call, _| {
        looks += u32::from(call.action == "DescribeSnapshots");
        if looks > 10 { Fate::Lost } else { Fate::Done }
    });
    assert!(publish_with(&cloud, &path, 1).is_err());
    cloud.fates(|_, _| Fate::Done);
    let published =
        publish_within(&cloud, &path, Retry { settle_timeout: Duration::ZERO, ..retry(1) })
            .unwrap();
    is_whole(&cloud, &path, &published);
    assert_eq!(
        (cloud.calls("CompleteSnapshot").len(), cloud.calls("DeleteSnapshot").len()),
        (0, 0)
    );
}

#[test]
fn an_image_or_copy_that_fails_at_aws_is_replaced() {
    let (_folder, path) = disk_of(3);
    // The first image is that of the home region. The next one after its success is the copy.
    for fails in [vec![true], vec![false, true], vec![true, true, false, true, true]] {
        let (cloud, failed) = (Cloud::start(), fails.iter().filter(|fails| **fails).count());
        cloud.state.lock().unwrap().fails = fails.clone();
        let published =
            publish_with(&cloud, &path, 1).unwrap_or_else(|error| panic!("{fails:?}: {error}"));
        is_whole(&cloud, &path, &published);
        assert_eq!(
            (cloud.calls("DeregisterImage").len(), cloud.calls("StartSnapshot").len()),
            (failed, 1),
            "{fails:?}"
        );
        let copies = cloud.calls("CopyImage");
        let tokens: BTreeSet<_> =
            copies.iter().map(|call| call.parameters()["ClientToken"].clone()).collect();
        assert_eq!(
            tokens.len(),
            copies.len(),
            "AWS would return the failed copy again for the same token"
        );
    }
    let cloud = Cloud::start();
    cloud.state.lock().unwrap().fails = vec![true; 9];
    let error = publish_with(&cloud, &path, 1).err().unwrap().to_string();
    assert!(
        error.starts_with(
            "error: no image in eu-central-1 becomes available\n  caused by: these \
                           failed at AWS: ami-"
        ),
        "{error}"
    );
    assert_eq!(cloud.calls("RegisterImage").len(), 3);
}

#[test]
fn a_copy_that_failed_on_another_machine_is_made_again() {
    let (_folder, path) = disk_of(3);
    for last in ["DeregisterImage", "DeleteSnapshot", "CopyImage"] {
        let cloud = Cloud::start();
        cloud.state.lock().unwrap().fails = vec![false, true];
        // Another publish found it, removed a part of it, and crashed.
        let mut copies = 0;
        cloud.fates(move |call, _| {
            copies += u32::from(call.action == "CopyImage");
            if call.action == last && (last != "CopyImage" || copies == 2) {
                Fate::DoneUnheard
            } else {
                Fate::Done
            }
        });
        assert!(publish_with(&cloud, &path, 1).is_err(), "{last}");
        cloud.fates(|_, _| Fate::Done);
        let published =
            publish_with(&cloud, &path, 1).unwrap_or_else(|error| panic!("{last}: {error}"));
        cloud.assert_no_mistakes();
        let images = cloud.state.lock().unwrap().images.keys().cloned().collect::<Vec<_>>();
        assert_eq!((images.len(), published.images.len()), (2, 2), "{last}: {images:?}");
    }
}
