//! `publish --prune` removes old images of its owner, and nothing else.

use crate::builds::done;
use crate::cloud::Cloud;
use crate::publish::{REGION, project, publish, publish_as, result};
use crate::scratch::RECIPE;
use osbuild::plan::Date;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn the_same_image_is_the_same_ami_and_prune_keeps_the_newest() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    let first = result(&publish(&scratch, &[]));
    let calls = cloud.names().len();
    let again = result(&publish(&scratch, &[]));
    assert_eq!(
        (&first["images"], &first["was-there"], &again["was-there"]),
        (&again["images"], &json!(false), &json!(true))
    );
    let made = ["StartSnapshot", "PutSnapshotBlock", "RegisterImage"].map(str::to_owned);
    assert!(!cloud.names()[calls..].iter().any(|name| made.contains(name)));
    let mut others = Vec::new();
    for keys in ["two", "three"] {
        done(&scratch.osbuild(&["keys", "new", keys]));
        others.push(result(&publish_as(keys, &scratch, &[])));
    }
    // Only an orphan of before yesterday is removed: a younger one may be in use, and other
    // recipes' are not ours.
    let yesterday = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 86_400;
    let yesterday = Date::from_unix(yesterday).to_string();
    cloud.state.lock().unwrap().orphan("snap-yesterday", &yesterday, RECIPE);
    cloud.state.lock().unwrap().orphan("snap-old", "2020-01-01", RECIPE);
    cloud.state.lock().unwrap().orphan("snap-today", "2999-01-01", RECIPE);
    cloud.state.lock().unwrap().orphan("snap-other", "2020-01-01", "another");
    let last = result(&publish_as("three", &scratch, &["--prune", "2"]));
    let state = cloud.state.lock().unwrap();
    let left: BTreeSet<&str> = state.images.keys().map(|(_, id)| id.as_str()).collect();
    assert_eq!(
        left,
        others.iter().map(|other| other["images"][REGION].as_str().unwrap()).collect()
    );
    let used = state.images.values().map(|image| image.snapshot.as_str()).chain([
        "snap-today",
        "snap-yesterday",
        "snap-other",
    ]);
    assert_eq!(
        state.snapshots.keys().map(|(_, id)| id.as_str()).collect::<BTreeSet<_>>(),
        used.collect()
    );
    let removed = last["removed"].as_array().unwrap();
    assert!(
        removed.len() == 3 && removed.iter().any(|gone| gone["id"] == first["images"][REGION]),
        "{last}"
    );
}

/// Adds copies of the image `published`, and snapshots, to the account. `--prune` must keep most of
/// them: each lacks one property of the owner's resources.
fn plant_beside(cloud: &Cloud, published: &str) {
    let plant = |change: &dyn Fn(&mut crate::cloud::Image)| {
        let mut state = cloud.state.lock().unwrap();
        let key = (REGION.to_owned(), published.to_owned());
        let mut image = state.images[&key].clone();
        image.created = "2020-01-01T00:00:00.000Z".to_owned();
        change(&mut image);
        let id = format!("ami-planted-{}", state.images.len());
        state.images.insert((REGION.to_owned(), id), image);
    };
    let tag = |name: &'static str, value: &'static str| {
        move |image: &mut crate::cloud::Image| drop(image.tags.insert(name.into(), value.into()))
    };
    plant(&tag("osbuild:owner", "another team"));
    plant(&|image| drop(image.tags.remove("osbuild:owner")));
    plant(&tag("osbuild:recipe", "another"));
    plant(&|image| drop(image.tags.remove("osbuild:image")));
    plant(&tag(
        "osbuild:image",
        "0000000000000000000000000000000000000000000000000000000000000000",
    ));
    plant(&|image| drop(image.parameters.insert("Description".into(), "made by hand".into())));
    plant(&|image| drop(image.parameters.insert("Name".into(), "made by hand".into())));
    {
        let mut state = cloud.state.lock().unwrap();
        state.orphan("snap-ours", "2020-01-01", RECIPE);
        state.orphan("snap-copied", "2020-01-01", RECIPE).description =
            "Copied for DestinationAmi ami-1 from SourceAmi ami-2".into();
        state.orphan("snap-by-hand", "2020-01-01", RECIPE).description = "made by hand".into();
        drop(state.orphan("snap-untagged", "2020-01-01", RECIPE).tags.remove("osbuild:image"));
        drop(
            state
                .orphan("snap-of-others", "2020-01-01", RECIPE)
                .tags
                .insert("osbuild:owner".into(), "another team".into()),
        );
    }
}

#[test]
fn prune_removes_only_its_owners_images_and_a_dry_run_lists_them() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    let first = result(&publish(&scratch, &[]));
    done(&scratch.osbuild(&["keys", "new", "two"]));
    plant_beside(&cloud, first["images"][REGION].as_str().unwrap());
    let everything = |cloud: &Cloud| {
        let state = cloud.state.lock().unwrap();
        state
            .images
            .keys()
            .chain(state.snapshots.keys())
            .map(|(_, id)| id.clone())
            .collect::<BTreeSet<_>>()
    };
    let (before, calls) = (everything(&cloud), cloud.names().len());
    let dry = publish_as("two", &scratch, &["--prune", "1", "--dry-run"]);
    done(&dry);
    assert!(
        cloud.names()[calls..].iter().all(|call| call.starts_with("Describe")),
        "{:?}",
        &cloud.names()[calls..]
    );
    assert!(dry.stderr.contains("`--prune` would remove 4 images and snapshots"), "{}", dry.stderr);
    let lines = dry.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let listed: BTreeSet<String> =
        lines.filter_map(|line| Some(line["would-remove"].as_str()?.to_owned())).collect();
    // The planted images share the snapshot of the first image, so it stays.
    let published = result(&publish_as("two", &scratch, &["--prune", "1"]));
    let removed: BTreeSet<String> = published["removed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gone| gone["id"].as_str().unwrap().to_owned())
        .collect();
    let image = first["images"][REGION].as_str().unwrap();
    assert_eq!(removed, ["snap-ours", "snap-copied", image].map(str::to_owned).into());
    assert!(listed.is_superset(&removed) && listed.len() == 4, "{listed:?}");
    let left: BTreeSet<String> = everything(&cloud).intersection(&before).cloned().collect();
    assert_eq!(before.difference(&left).cloned().collect::<BTreeSet<_>>(), removed);
}

#[test]
fn a_dry_run_does_not_list_a_shared_snapshot() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    let published = result(&publish(&scratch, &[]));
    let image = published["images"][REGION].as_str().unwrap();
    {
        // The same disk with other keys in its firmware: an older image with the same snapshot.
        let mut state = cloud.state.lock().unwrap();
        let mut older = state.images[&(REGION.to_owned(), image.to_owned())].clone();
        older.created = "2020-01-01T00:00:00.000Z".to_owned();
        state.images.insert((REGION.to_owned(), "ami-older".to_owned()), older);
    }
    let dry = publish(&scratch, &["--prune", "1", "--dry-run"]);
    done(&dry);
    let lines = dry.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let listed: Vec<String> =
        lines.filter_map(|line| Some(line["would-remove"].as_str()?.to_owned())).collect();
    assert_eq!(listed, ["ami-older"]);
    let pruned = result(&publish(&scratch, &["--prune", "1"]));
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 1, "{pruned}");
}
