//! A repository over time: several writers at once, older checkouts, and hundreds of releases.

use crate::builds::done;
use crate::keys::keys;
use crate::releases::{folder, other_client, release, verify, workshop, wrong};
use crate::scratch::{RECIPE, Ran, Scratch, copy};
use osbuild::engine::digest::Digest;
use osbuild::plan::Date;
use osbuild::ship::keys::Keys;
use osbuild::ship::tuf::{Change, Client, Repository};
use osbuild_release::{Architecture, Document, File, Sha256, target};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A repository as read by a client that trusts the oldest root of the keys `mine`.
fn client(scratch: &Scratch, folder: &Path) -> Client {
    let roots = Keys::named(&scratch.project(), "mine").unwrap().roots().unwrap();
    Repository::at(folder).read(&roots[0], None).unwrap_or_else(|error| panic!("{error}"))
}

/// The versions of the recipe in a repository.
fn versions(client: &Client) -> Vec<String> {
    let version = |name: String| {
        Some(
            name.strip_prefix(RECIPE)?.strip_prefix('_')?.split_once("_release.json")?.0.to_owned(),
        )
    };
    client.targets().into_keys().filter_map(version).collect()
}

fn set_version(scratch: &Scratch, before: &str, version: &str) {
    scratch.edit("recipes/small.toml", before, &format!("version = \"{version}\"\ninherit"));
}

/// Waits until a file contains `text`.
#[track_caller]
pub fn wait_for(path: &Path, text: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    while !fs::read_to_string(path).is_ok_and(|output| output.contains(text)) {
        assert!(
            Instant::now() < end,
            "no output with {text:?}: {}",
            fs::read_to_string(path).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn concurrent_releases_into_one_folder_wait_for_each_other() {
    let scratch = workshop();
    let to = scratch.path("updates");
    fs::create_dir(&to).unwrap();
    let versions_at_once = ["2", "3", "4", "5"];
    for version in versions_at_once {
        let project = scratch.path(version);
        copy(&scratch.project(), &project);
        let key = |name: &str| project.join("keys/mine").join(name);
        use std::os::unix::fs::PermissionsExt;
        ["db.key", "release.key"].iter().for_each(|name| {
            fs::set_permissions(key(name), fs::Permissions::from_mode(0o600)).unwrap()
        });
        let recipe = project.join("recipes/small.toml");
        let text = fs::read_to_string(&recipe).unwrap();
        fs::write(recipe, format!("version = \"{version}\"\n{text}")).unwrap();
    }
    // None of them starts before all of them wait for the lock.
    let lock = to.join(".osbuild-release.lock");
    let held = fs::File::create(&lock).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let started: Vec<_> = versions_at_once
        .iter()
        .map(|version| {
            let (project, output) =
                (scratch.path(version), scratch.path(&format!("{version}.txt")));
            let words = [
                "--project",
                project.to_str().unwrap(),
                "release",
                RECIPE,
                "--key",
                "mine",
                "--as-of",
                "2026-11-21",
                "--to",
            ];
            let mut command = scratch.command(&[], &[&words[..], &[to.to_str().unwrap()]].concat());
            let child = command
                .stdout(Stdio::null())
                .stderr(fs::File::create(&output).unwrap())
                .spawn()
                .unwrap();
            (child, output)
        })
        .collect();
    started.iter().for_each(|(_, output)| wait_for(output, "waiting for another release to `"));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1, "a release was written into a locked folder");
    fs::remove_file(&lock).unwrap();
    drop(held);
    for (mut child, output) in started {
        assert!(child.wait().unwrap().success(), "{}", fs::read_to_string(output).unwrap());
    }
    assert_eq!(versions(&client(&scratch, &to)), versions_at_once);
    // Each of them wrote a version of its own.
    for version in 1..=4 {
        let listed =
            fs::read_to_string(to.join(format!("metadata/{version}.targets.json"))).unwrap();
        assert_eq!(listed.matches("_release.json\"").count(), version, "{version}.targets.json");
    }
    assert!(!lock.exists());
}

/// Releases again with the same image as another version.
fn release_as(scratch: &Scratch, before: &str, version: &str, flags: &[&str]) -> Ran {
    set_version(scratch, before, version);
    release(scratch, flags)
}

#[test]
fn a_checkout_with_older_or_other_keys_changes_no_repository() {
    let scratch = workshop();
    done(&release(&scratch, &[]));
    let (mine, older) = (keys(&scratch, "mine"), scratch.path("older"));
    let copy_keys = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-a").args([from, to]).status();
        assert!(copied.unwrap().success());
    };
    let put_back = |from: &Path| {
        fs::remove_dir_all(&mine).unwrap();
        copy_keys(from, &mine);
    };
    copy_keys(&mine, &older);
    done(&scratch.osbuild(&[
        "keys",
        "rotate",
        "mine",
        "--as-of",
        "2026-01-02",
        "--role",
        "release",
    ]));
    done(&release(&scratch, &["--promote", "1.35.8", "--channel", "stable"]));
    let newer = scratch.path("newer");
    fs::rename(&mine, &newer).unwrap();
    fs::create_dir(&mine).unwrap();
    put_back(&older);
    let before = crate::releases::files(&folder(&scratch));
    fs::remove_dir_all(scratch.project().join("out").join(RECIPE).join("logs")).unwrap();
    for ran in
        [release_as(&scratch, "inherit", "2", &[]), release(&scratch, &["--promote", "1.35.8"])]
    {
        let shown = folder(&scratch).display().to_string();
        let output = format!(
            "error: the keys `mine` here are older than `{shown}`\n  caused by: the newest root \
             of trust here has version 1, the one there 2\n\
             hint: get the newest `keys/mine`: git pull\n"
        );
        assert!(ran.code == Some(2) && ran.stderr.ends_with(&output), "{}", ran.stderr);
    }
    assert!(
        !scratch.project().join("out").join(RECIPE).join("logs").exists(),
        "it is refused before anything is built"
    );
    done(&scratch.osbuild(&["keys", "new", "other", "--as-of", "2026-01-01"]));
    let ran = scratch.osbuild(&["release", RECIPE, "--key", "other", "--as-of", "2026-11-21"]);
    assert!(
        ran.code == Some(4) && ran.stderr.contains("does not belong to the keys `other`"),
        "{}",
        ran.stderr
    );
    assert!(crate::releases::files(&folder(&scratch)) == before);
    put_back(&newer);
    done(&release(&scratch, &[]));
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
}

#[test]
fn keep_spares_releases_of_channels_and_files_that_nodes_may_fetch() {
    let scratch = workshop();
    done(&release(&scratch, &[]));
    done(&release(&scratch, &["--promote", "1.35.8", "--channel", "stable"]));
    for (before, version) in
        [("inherit", "2"), ("version = \"2\"\ninherit", "3"), ("version = \"3\"\ninherit", "10")]
    {
        done(&release_as(&scratch, before, version, &[]));
    }
    let at = folder(&scratch);
    let has_files = |version: &str| {
        let prefix = format!(".{RECIPE}_{version}_");
        fs::read_dir(at.join("targets"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().contains(&prefix))
            .count()
    };
    assert_eq!(versions(&client(&scratch, &at)), ["1.35.8", "10", "2", "3"]);
    let ran = release_as(&scratch, "version = \"10\"\ninherit", "11", &["--keep", "2", "--json"]);
    done(&ran);
    let output: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(output["dropped"], serde_json::json!(["3", "2"]));
    assert!(
        ran.stderr.contains("removed `3` and `2` of small from the repository"),
        "{}",
        ran.stderr
    );
    assert_eq!(versions(&client(&scratch, &at)), ["1.35.8", "10", "11"]);
    assert_eq!(
        ["1.35.8", "2", "3", "10", "11"].map(has_files),
        [7, 7, 7, 7, 7],
        "a node may use the previous metadata"
    );
    assert_eq!(wrong(&verify(&scratch, &["--all"])), [""; 0]);
    done(&release(&scratch, &["--promote", "11", "--channel", "stable", "--keep", "1"]));
    assert_eq!(versions(&client(&scratch, &at)), ["11"]);
    assert_eq!(["1.35.8", "2", "3", "10", "11"].map(has_files), [7, 0, 0, 7, 7]);
    let metadata = |name: &str| {
        fs::read_dir(at.join("metadata"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(name))
            .count()
    };
    assert_eq!(["root.json", "targets.json", "snapshot.json"].map(metadata), [1, 2, 2]);
    // python-tuf fetches a release that was kept, and a removed one cannot be promoted.
    let root = keys(&scratch, "mine").join("root.json");
    assert_eq!(other_client_today(&scratch, &root), 1);
    let ran = release(&scratch, &["--promote", "2"]);
    assert!(
        ran.stderr.ends_with(
            "error: version 2 of `small` has not been released here\nhint: released: `11`\n"
        ),
        "{}",
        ran.stderr
    );
}

/// How many targets python-tuf fetches from the repository. It uses this machine's clock, so the
/// metadata must not have expired by it.
fn other_client_today(scratch: &Scratch, root: &Path) -> usize {
    done(&scratch.osbuild(&[
        "release",
        RECIPE,
        "--key",
        "mine",
        "--days",
        "3650",
        "--promote",
        "11",
        "--keep",
        "1",
    ]));
    other_client(scratch, root, &["candidate_small.json"]).len()
}

/// Adds `count` releases of a few bytes, which are in no channel, to the repository in one change.
fn add_old_releases(scratch: &Scratch, count: u32) {
    let keys = Keys::named(&scratch.project(), "mine").unwrap();
    let mut put: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for number in 0..count {
        let version = format!("0.{number}");
        let contents = [target::NODE, target::BOOT, target::LOCK, target::SBOM]
            .map(|name| (name, format!("{name} of {version}").into_bytes()));
        let file = |bytes: &Vec<u8>| File {
            length: bytes.len() as u64,
            sha256: Sha256(*Digest::of(bytes).hash()),
        };
        let files =
            contents.iter().map(|(name, bytes)| ((*name).to_owned(), file(bytes))).collect();
        let document =
            Document::new(RECIPE, &version, Architecture::Arm64, 0, "2026-01-01", files).unwrap();
        put.insert(target::file(RECIPE, &version, target::DOCUMENT), document.encode());
        put.extend(
            contents.into_iter().map(|(name, bytes)| (target::file(RECIPE, &version, name), bytes)),
        );
    }
    let repository = Repository::at(&folder(scratch));
    let change = Change {
        put: put.iter().map(|(name, bytes)| (name.clone(), &bytes[..])).collect(),
        dropped: BTreeSet::new(),
    };
    let until = Date { year: 2027, month: 2, day: 19 };
    let writer = repository.writer(|| ()).unwrap();
    writer.publish(&keys.roots().unwrap(), &keys.release_key().unwrap(), until, &change).unwrap();
}

/// The names of the files of a folder that are opened during `act`.
fn opened(folder: &Path, act: impl FnOnce()) -> BTreeSet<String> {
    let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&queue, folder, WatchFlags::OPEN).unwrap();
    act();
    let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
    let (mut events, mut names) = (inotify::Reader::new(&queue, &mut buffer), BTreeSet::new());
    while let Ok(event) = events.next() {
        assert!(
            !event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW),
            "the kernel's queue of events overflowed"
        );
        names.extend(
            event
                .file_name()
                .map(|name| name.to_str().unwrap().to_owned())
                .filter(|name| !name.is_empty()),
        );
    }
    names
}

#[test]
fn verify_and_release_do_not_read_older_releases() {
    let scratch = workshop();
    done(&release(&scratch, &[]));
    let targets = folder(&scratch).join("targets");
    let few = opened(&targets, || assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]));
    assert_eq!(few.len(), 8, "{few:?}");
    add_old_releases(&scratch, 300);
    assert_eq!(fs::read_dir(&targets).unwrap().count(), 8 + 300 * 5);
    let many = opened(&targets, || {
        let ran = verify(&scratch, &[]);
        assert_eq!(wrong(&ran), [""; 0]);
        assert!(
            ran.stdout.contains(
                "8 files match the metadata; 1500 of older releases exist but were not read: \
                 `--all` reads them"
            ),
            "{}",
            ran.stdout
        );
    });
    assert_eq!(many, few);
    let released = opened(&targets, || done(&release_as(&scratch, "inherit", "2", &[])));
    assert!(released.iter().all(|name| !name.contains("_0.")), "{released:?}");
    let all = opened(&targets, || assert_eq!(wrong(&verify(&scratch, &["--all"])), [""; 0]));
    assert_eq!(all.len(), 8 + 7 + 300 * 5);
}

#[test]
fn verify_finds_missing_old_files_and_reads_old_files_with_all() {
    let scratch = workshop();
    done(&release(&scratch, &[]));
    add_old_releases(&scratch, 1);
    let find = |end: &str| {
        fs::read_dir(folder(&scratch).join("targets"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.display().to_string().ends_with(end))
            .unwrap()
    };
    let node = find("_0.0_node.efi");
    let bytes = fs::read(&node).unwrap();
    fs::write(&node, "NODE.EFI of 0.0").unwrap();
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
    let ran = verify(&scratch, &["--all"]);
    assert!(
        wrong(&ran)
            .concat()
            .contains("`small_0.0_node.efi` does not match the repository's metadata"),
        "{}",
        ran.stdout
    );
    // It cannot be promoted to a channel.
    let ran = release(&scratch, &["--promote", "0.0"]);
    assert!(
        ran.code == Some(4)
            && ran.stderr.contains("`small_0.0_node.efi` does not match the repository's metadata"),
        "{}",
        ran.stderr
    );
    fs::remove_file(&node).unwrap();
    assert!(wrong(&verify(&scratch, &[])).concat().contains(
        "`small_0.0_node.efi` is missing or \
    has a different length"
    ));
    fs::write(&node, bytes).unwrap();
    done(&release(&scratch, &["--promote", "0.0"]));
}
