//! The rollout of a release: its publisher makes, changes, stops and ends it.

use crate::builds::done;
use crate::keys::keys;
use crate::releases::{folder, release, target, verify, workshop, wrong};
use crate::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The document of the channel `stable`.
fn stable(scratch: &Scratch) -> Vec<u8> {
    // Documents of before stay in the folder until the next sweep.
    let folder = folder(scratch);
    let targets = fs::read_dir(folder.join("metadata")).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".targets.json")?.parse::<u32>().ok()
    });
    let newest = format!("metadata/{}.targets.json", targets.max().unwrap());
    let listed: Value = serde_json::from_slice(&fs::read(folder.join(newest)).unwrap()).unwrap();
    let digest = &listed["signed"]["targets"]["stable_small.json"]["hashes"]["sha256"];
    let name = format!("targets/{}.stable_small.json", digest.as_str().unwrap());
    fs::read(folder.join(name)).unwrap()
}

fn rollout(scratch: &Scratch) -> Value {
    serde_json::from_slice::<Value>(&stable(scratch)).unwrap()["rollout"].take()
}

#[test]
fn a_rollout_is_changed_stopped_and_ended_without_a_build() {
    let scratch = workshop();
    let file = scratch.path("rollout.toml");
    let write = |text: &str| fs::write(&file, text).unwrap();
    let flag = file.display().to_string();
    let stable_release =
        |flags: &[&str]| release(&scratch, &[&["--channel", "stable"], flags].concat());
    write("waves = [{ nodes = '1%' }, { nodes = '100%', after-hours = 24 }]");
    let ran = stable_release(&["--rollout", &flag]);
    done(&ran);
    let line = "nodes: 1% from 2026-11-21T00:00:00Z, 100% from 2026-11-22T00:00:00Z\n";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    let ran = verify(&scratch, &[]);
    assert_eq!(wrong(&ran), [""; 0]);
    assert!(ran.stdout.contains("rollout") && ran.stdout.contains(line), "{}", ran.stdout);
    let own = fs::read(target(&scratch, "small_1.35.8_release.json")).unwrap();
    assert_ne!(stable(&scratch), own);

    write("waves = [{ nodes = '5%' }]\nwindows = [{ start = '22:00', hours = 8 }]");
    done(&stable_release(&["--promote", "1.35.8", "--rollout", &flag]));
    let changed = rollout(&scratch);
    assert_eq!(changed["waves"], serde_json::json!([{ "nodes": "5%" }]));
    done(&stable_release(&["--promote", "1.35.8"]));
    assert_eq!(rollout(&scratch), changed);

    // A release is stopped whatever the recipe has become.
    scratch.edit("recipes/small.toml", "inherit", "nonsense = 1\ninherit");
    done(&stable_release(&["--rollout", "stop"]));
    assert_eq!(rollout(&scratch)["stopped"], true);
    let ran = verify(&scratch, &[]);
    assert!(ran.stdout.contains("no further node: it is stopped"), "{}", ran.stdout);
    done(&stable_release(&["--rollout", "all"]));
    assert_eq!(stable(&scratch), own);
}

#[test]
fn a_rollout_that_makes_no_sense_makes_no_release() {
    let scratch = workshop();
    let file = scratch.path("rollout.toml");
    for (text, why) in [
        ("waves = [{ nodes = '101%' }]", ":1: `101%` is not a percentage from `0.01%` to `100%`"),
        ("waves = [\n  { nodes = '9%' },\n  { nodes = '1%' },\n]", ":1: each wave must reach more"),
        ("\nwindow = []", ":2: unknown field `window`"),
    ] {
        fs::write(&file, text).unwrap();
        let ran = release(&scratch, &["--rollout", &file.display().to_string()]);
        assert!(ran.code == Some(2) && ran.stderr.contains(why), "{}", ran.stderr);
    }
    let ran = release(&scratch, &["--rollout", "stopp"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("cannot read `stopp`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: a rollout is the path of a file, or `stop`"));
    let ran = release(&scratch, &["--channel", "stable", "--rollout", "stop"]);
    let why = "channel stable has no release of `small` here";
    assert!(ran.code == Some(2) && ran.stderr.contains(why), "{}", ran.stderr);
    assert!(!folder(&scratch).join("metadata").exists());
}

#[test]
fn a_release_is_promoted_whatever_the_recipe_has_become() {
    let scratch = workshop();
    done(&release(&scratch, &[]));
    scratch.edit("recipes/small.toml", "inherit", "nonsense = 1\ninherit");
    fs::remove_file(keys(&scratch, "mine").join("db.key")).unwrap();
    done(&release(&scratch, &["--promote", "1.35.8", "--channel", "stable"]));
    assert_eq!(wrong(&verify(&scratch, &["--channel", "stable"])), [""; 0]);
}

#[test]
fn a_release_with_a_damaged_file_is_stopped_but_not_continued() {
    let scratch = workshop();
    done(&release(&scratch, &["--channel", "stable"]));
    fs::write(target(&scratch, "small_1.35.8_node.efi"), "damaged").unwrap();
    done(&release(&scratch, &["--channel", "stable", "--rollout", "stop"]));
    assert_eq!(rollout(&scratch)["stopped"], true);
    let ran = release(&scratch, &["--channel", "stable", "--rollout", "all"]);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert_eq!(rollout(&scratch)["stopped"], true);
}

#[test]
fn the_documented_rollout_leaves_check_without_problems() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/release-pipeline.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, page) = page.split_once("\n## Rollouts\n").unwrap();
    let (before, rest) = page.split_once("\n```toml\n").unwrap();
    let (text, rest) = rest.split_once("```\n").unwrap();
    let path = before.split('`').rev().nth(1).unwrap();
    assert!(rest.contains(&format!("--rollout {path} ")), "{path}");

    let scratch = workshop();
    let file = scratch.project().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    done(&scratch.osbuild(&["check"]));
    let ran = release(&scratch, &["--channel", "stable", "--rollout", path]);
    done(&ran);
    assert!(ran.stderr.contains("0.1% from 2026-11-21T00:00:00Z"), "{}", ran.stderr);
}
