//! Releases as their users meet them: which keys may make one, what it contains, and whether
//! `osbuild verify` and independent programs accept it.

use crate::builds::done;
use crate::http::Server;
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DAY: &str = "2026-11-21";

/// Fetches the named targets with python-tuf's own client, and prints the SHA-256 of each.
const CLIENT: &str = "
import hashlib, sys, tempfile
from tuf.ngclient import Updater
base, root, *names = sys.argv[1:]
with tempfile.TemporaryDirectory() as memory, open(root, 'rb') as trusted:
    urls = (base + '/metadata/', base + '/targets/')
    updater = Updater(memory, urls[0], memory, urls[1], bootstrap=trusted.read())
    updater.refresh()
    for name in names:
        path = updater.download_target(updater.get_targetinfo(name), memory + '/target')
        print(hashlib.sha256(open(path, 'rb').read()).hexdigest())
";

/// A project with keys `mine`, which are valid on [`DAY`].
pub fn workshop() -> Scratch {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine", "--as-of", "2026-01-01"]));
    scratch
}

pub fn release(scratch: &Scratch, flags: &[&str]) -> Ran {
    scratch.osbuild(&[&["release", RECIPE, "--key", "mine", "--as-of", DAY], flags].concat())
}

/// A project with one release in the channel `candidate`.
pub fn released() -> Scratch {
    let scratch = workshop();
    done(&release(&scratch, &[]));
    scratch
}

pub fn folder(scratch: &Scratch) -> PathBuf {
    scratch.project().join("out").join(RECIPE).join("release")
}

/// The files of a repository's folder, by their path in it.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for part in ["metadata", "targets"] {
        for entry in fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            found.insert(
                path.strip_prefix(folder).unwrap().display().to_string(),
                fs::read(path).unwrap(),
            );
        }
    }
    found
}

/// The target whose name ends with `name`.
pub fn target(scratch: &Scratch, name: &str) -> PathBuf {
    let folder = folder(scratch);
    let found = files(&folder)
        .into_keys()
        .find(|path| path.ends_with(name))
        .unwrap_or_else(|| panic!("no {name}"));
    folder.join(found)
}

pub fn verify(scratch: &Scratch, flags: &[&str]) -> Ran {
    verify_on(DAY, scratch, flags)
}

fn verify_on(day: &str, scratch: &Scratch, flags: &[&str]) -> Ran {
    let folder = folder(scratch).display().to_string();
    scratch.osbuild(&[&["verify", &folder, "--key", "mine", "--as-of", day], flags].concat())
}

/// The failed checks of a verification, except those of the contents: the layers of these images
/// cannot be read.
pub fn wrong(ran: &Ran) -> Vec<&str> {
    assert!(ran.stdout.lines().count() > 0, "{}", ran.stderr);
    ran.stdout
        .lines()
        .filter(|line| line.starts_with("WRONG") && !line.contains(" contents "))
        .collect()
}

#[test]
fn a_release_matches_its_metadata_document_sbom_and_provenance() {
    let scratch = released();
    let ran = verify(&scratch, &[]);
    assert_eq!(wrong(&ran), [""; 0], "{}{}", ran.stdout, ran.stderr);
    for check in [
        "metadata",
        "targets",
        "release",
        "boot signature",
        "signature",
        "dates",
        "version",
        "sources",
        "provenance",
        "sbom",
    ] {
        assert!(
            ran.stdout.lines().any(|line| line.starts_with(&format!("ok     {check} "))),
            "{check}: {}",
            ran.stdout
        );
    }
}

#[test]
fn two_releases_with_the_same_date_are_identical() {
    let scratch = released();
    let before = files(&folder(&scratch));
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    done(&release(&scratch, &[]));
    let after = files(&folder(&scratch));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after);
    assert_eq!(before.len(), 4 + 8);
}

#[test]
fn the_dev_key_makes_no_release_without_the_flag() {
    let scratch = open();
    let ran = scratch.osbuild(&["release", RECIPE, "--key", "dev"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr
            .contains("error: the keys `dev` are for development only and cannot sign a release\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("--allow-dev-key"), "{}", ran.stderr);
    assert!(!folder(&scratch).exists());
    done(&scratch.osbuild(&["release", RECIPE, "--key", "dev", "--allow-dev-key"]));
    assert!(folder(&scratch).join("metadata/timestamp.json").is_file());
}

#[test]
fn a_folder_without_a_repository_is_a_wrong_argument() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let out = scratch.project().join("out/small");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("image.raw"), "").unwrap();
    let ran = scratch.osbuild(&["verify", "out/small", "--key", "mine"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    let expected = "error: `out/small` is not a folder of releases\nhint: `cargo osbuild release ";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
}

#[test]
fn an_end_of_life_minor_makes_no_release() {
    let scratch = workshop();
    scratch.edit("components/kubelet/releases.toml", "end-of-life = 2999", "end-of-life = 2025");
    done(&scratch.osbuild(&["build", RECIPE]));
    let ran = release(&scratch, &[]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("the support of kubelet 1.35.8 ended on 2025"), "{}", ran.stderr);
}

#[test]
fn an_expired_certificate_makes_no_release() {
    let ran = workshop().osbuild(&["release", RECIPE, "--key", "mine", "--as-of", "2036-01-02"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("error: the certificate of the keys `mine` has expired\n")
            && ran.stderr.ends_with("hint: cargo osbuild keys rotate mine\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_expired_root_makes_no_release() {
    let scratch = released();
    let promote = |day: &str| {
        scratch.osbuild(&[
            "release",
            RECIPE,
            "--key",
            "mine",
            "--promote",
            "1.35.8",
            "--as-of",
            day,
        ])
    };
    let ran = promote("2035-12-31");
    done(&ran);
    let hint =
        "when root.json expires: `cargo osbuild keys rotate mine --role root` and `--promote";
    assert!(ran.stderr.contains(&format!("until 2036-01-01, {hint} 1.35.8`")), "{}", ran.stderr);
    let before = files(&folder(&scratch));
    let ran = promote("2036-01-02");
    let hint = "hint: cargo osbuild keys rotate mine --role root\n";
    assert!(ran.code == Some(1) && ran.stderr.ends_with(hint), "{}", ran.stderr);
    assert!(before == files(&folder(&scratch)));
    let rotate = ["keys", "rotate", "mine", "--role", "root", "--as-of", "2036-01-02"];
    done(&scratch.osbuild(&rotate));
    done(&promote("2036-01-02"));
    let ran = verify_on("2036-01-02", &scratch, &[]);
    assert!(ran.stdout.contains("ok     metadata dates"), "{}", ran.stdout);
}

/// The digests of the named targets, which python-tuf fetches from a web server, trusting this
/// root.
pub fn other_client(scratch: &Scratch, root: &Path, names: &[&str]) -> Vec<String> {
    let server = Server::start();
    for (path, bytes) in files(&folder(scratch)) {
        server.put(format!("/{path}"), 200, &bytes);
    }
    let root = root.display().to_string();
    let words = [&["python3", "-c", CLIENT, server.address(), &root], names].concat();
    tool(&folder(scratch), "pip3 install tuf", &words).lines().map(str::to_owned).collect()
}

#[test]
fn a_release_is_read_by_another_tuf_client() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["release", RECIPE, "--key", "mine"]));
    let found = other_client(
        &scratch,
        &keys(&scratch, "mine").join("root.json"),
        &["candidate_small.json", "small_1.35.8_node.efi"],
    );
    let document: Value =
        serde_json::from_slice(&fs::read(target(&scratch, "candidate_small.json")).unwrap())
            .unwrap();
    assert_eq!(document["files"]["node.efi"]["sha256"], found[1]);
    let node = scratch.project().join("out").join(RECIPE).join("node.efi");
    assert!(
        tool(&scratch.project(), "coreutils", &["sha256sum", &node.display().to_string()])
            .starts_with(&found[1])
    );
}

/// Promotes the release to the channel `stable`, today.
fn promote(scratch: &Scratch) {
    let words = ["release", RECIPE, "--key", "mine", "--promote", "1.35.8", "--channel", "stable"];
    done(&scratch.osbuild(&words));
}

#[test]
fn a_node_with_an_old_root_of_trust_follows_rotated_keys() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["release", RECIPE, "--key", "mine"]));
    let first = scratch.path("first-root.json");
    fs::copy(keys(&scratch, "mine").join("root.json"), &first).unwrap();
    for role in ["release", "root", "release"] {
        done(&scratch.osbuild(&["keys", "rotate", "mine", "--role", role]));
    }
    promote(&scratch);
    assert!(folder(&scratch).join("metadata/4.root.json").is_file());
    assert_eq!(other_client(&scratch, &first, &["stable_small.json"]).len(), 1);
    let verify = |root: &Path| {
        let (folder, root) = (folder(&scratch).display().to_string(), root.display().to_string());
        let flags = ["--root", &root, "--key", "mine", "--channel", "stable"];
        scratch.osbuild(&[&["verify", &folder], &flags[..]].concat())
    };
    let ran = verify(&first);
    // The signatures of the key before the last stay valid without being renewed.
    assert_eq!(wrong(&ran), [""; 0], "{}", ran.stdout);
    let ran = verify(&keys(&scratch, "mine").join("root.json"));
    // A client that trusts only the newest root does not know that key.
    assert!(
        wrong(&ran).len() == 1 && wrong(&ran)[0].ends_with("it is not signed by the release key"),
        "{}",
        ran.stdout
    );
}

#[test]
fn an_interrupted_root_key_rotation_is_completed_by_the_next_one() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["release", RECIPE, "--key", "mine"]));
    let folder = keys(&scratch, "mine");
    let first = scratch.path("first-root.json");
    fs::copy(folder.join("root.json"), &first).unwrap();
    done(&scratch.osbuild(&["keys", "rotate", "mine", "--role", "root"]));
    // The state after a power failure between the last two steps.
    fs::rename(folder.join("root.key"), folder.join(".root.unfinished")).unwrap();
    fs::rename(folder.join("root-1.key"), folder.join("root.key")).unwrap();
    // The only copy of the key stays, even if it cannot be read.
    let only = folder.join(".root.unfinished");
    fs::set_permissions(&only, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = scratch.osbuild(&["keys", "rotate", "mine", "--role", "release"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("can be read by other users"),
        "{}",
        refused.stderr
    );
    fs::set_permissions(&only, fs::Permissions::from_mode(0o600)).unwrap();
    done(&scratch.osbuild(&["keys", "rotate", "mine", "--role", "release"]));
    // The state after a power failure before the root names the key.
    fs::copy(folder.join("root-1.key"), folder.join(".root.unfinished")).unwrap();
    done(&scratch.osbuild(&["keys", "rotate", "mine", "--role", "root"]));
    promote(&scratch);
    assert_eq!(other_client(&scratch, &first, &["stable_small.json"]).len(), 1);
}

#[test]
fn a_changed_file_of_a_release_is_refused() {
    let scratch = released();
    let whole = files(&folder(&scratch));
    assert_eq!(verify(&scratch, &[]).code, Some(4), "the layers of these images cannot be read");
    for (path, bytes) in whole.iter().filter(|(path, _)| !path.ends_with("1.root.json")) {
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(folder(&scratch).join(path), changed).unwrap();
        let ran = verify(&scratch, &[]);
        let about = if path.starts_with("metadata") { "metadata " } else { "targets " };
        assert!(
            wrong(&ran).iter().any(|line| line.contains(about)),
            "{path}: {}{}",
            ran.stdout,
            ran.stderr
        );
        assert_eq!(ran.code, Some(4));
        fs::remove_file(folder(&scratch).join(path)).unwrap();
        assert!(!wrong(&verify(&scratch, &[])).is_empty(), "{path} is gone");
        fs::write(folder(&scratch).join(path), bytes).unwrap();
    }
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
}

#[test]
fn an_expired_repository_and_one_of_other_keys_are_refused() {
    let scratch = released();
    assert_eq!(wrong(&verify_on("2027-02-19", &scratch, &[])), [""; 0]);
    let ran = verify_on("2027-02-20", &scratch, &[]);
    assert!(wrong(&ran).concat().contains("expired on 2027-02-19"), "{}", ran.stdout);
    done(&scratch.osbuild(&["keys", "new", "other"]));
    let root = keys(&scratch, "other").join("root.json").display().to_string();
    let ran = verify(&scratch, &["--root", &root]);
    assert!(wrong(&ran).concat().contains("cannot be trusted"), "{}", ran.stdout);
    let ran = scratch.osbuild(&[
        "verify",
        &folder(&scratch).display().to_string(),
        "--cert",
        &root.replace("root.json", "db.crt"),
    ]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--root root.json"), "{}", ran.stderr);
}

#[test]
fn a_repository_rolled_back_or_mixed_from_two_is_refused() {
    let scratch = released();
    let memory = scratch.path("memory").display().to_string();
    let (old, memory) = (files(&folder(&scratch)), ["--memory", memory.as_str()]);
    scratch.edit("recipes/small.toml", "inherit", "version = \"2\"\ninherit");
    done(&release(&scratch, &[]));
    let new = files(&folder(&scratch));
    assert_eq!(wrong(&verify(&scratch, &memory)), [""; 0]);
    let timestamp = "metadata/timestamp.json";
    fs::write(folder(&scratch).join(timestamp), &old[timestamp]).unwrap();
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0], "without a memory it cannot be detected");
    assert!(wrong(&verify(&scratch, &memory)).concat().contains("metadata"));
    fs::write(folder(&scratch).join(timestamp), &new[timestamp]).unwrap();
    fs::write(folder(&scratch).join("metadata/2.snapshot.json"), &old["metadata/1.snapshot.json"])
        .unwrap();
    assert!(wrong(&verify(&scratch, &[])).concat().contains("metadata"));
    fs::write(folder(&scratch).join("metadata/2.snapshot.json"), &new["metadata/2.snapshot.json"])
        .unwrap();
    assert_eq!(wrong(&verify(&scratch, &memory)), [""; 0]);
}

#[test]
fn a_memory_refuses_older_metadata_and_hidden_keys_after_a_rotation() {
    let scratch = released();
    let memory = scratch.path("memory").display().to_string();
    let memory = ["--memory", memory.as_str()];
    let first = files(&folder(&scratch));
    done(&scratch.osbuild(&["keys", "rotate", "mine", "--role", "release", "--as-of", DAY]));
    let stable = |flags: &[&str]| {
        done(&release(&scratch, &[&["--channel", "stable"], flags].concat()));
        files(&folder(&scratch))
    };
    let second = stable(&["--promote", "1.35.8"]);
    let third = stable(&["--rollout", "stop"]);
    assert_eq!(wrong(&verify(&scratch, &memory)), [""; 0]);
    let timestamp = folder(&scratch).join("metadata/timestamp.json");
    let serve = |of: &BTreeMap<String, Vec<u8>>| {
        fs::write(&timestamp, &of["metadata/timestamp.json"]).unwrap();
    };
    serve(&second);
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0], "without a memory it cannot be detected");
    let ran = verify(&scratch, &memory);
    assert!(wrong(&ran).concat().contains("older than version 3 seen before"), "{}", ran.stdout);
    let root = folder(&scratch).join("metadata/2.root.json");
    fs::remove_file(&root).unwrap();
    serve(&first);
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0], "without a memory it cannot be detected");
    let ran = verify(&scratch, &memory);
    assert!(wrong(&ran).concat().contains("keys of version 1, which version 2"), "{}", ran.stdout);
    fs::write(&root, &third["metadata/2.root.json"]).unwrap();
    serve(&third);
    assert_eq!(wrong(&verify(&scratch, &memory)), [""; 0]);
}

#[test]
fn a_release_is_promoted_unchanged_and_never_replaced() {
    let scratch = released();
    let first = files(&folder(&scratch));
    done(&release(&scratch, &["--promote", "1.35.8", "--channel", "stable"]));
    assert_eq!(
        fs::read(target(&scratch, "stable_small.json")).unwrap(),
        fs::read(target(&scratch, "candidate_small.json")).unwrap()
    );
    let second = files(&folder(&scratch));
    assert!(
        first
            .iter()
            .all(|(path, bytes)| path.ends_with("timestamp.json") || second[path] == *bytes)
    );
    let ran = release(&scratch, &["--promote", "9"]);
    let expected =
        "error: version 9 of `small` has not been released here\nhint: released: `1.35.8`\n";
    assert!(ran.code == Some(2) && ran.stderr.ends_with(expected), "{}", ran.stderr);
    let ran = scratch.osbuild(&["release", RECIPE, "--key", "mine", "--as-of", "2026-11-22"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("version 1.35.8 of `small` is already released"),
        "{}",
        ran.stderr
    );
    scratch.edit("recipes/small.toml", "inherit", "version = \"1.35.8-2\"\ninherit");
    done(&release(&scratch, &[]));
    let ran = verify(&scratch, &["--channel", "candidate"]);
    assert!(
        ran.stdout.contains("version 1.35.8-2 of small")
            && !ran.stdout.contains("version 1.35.8 of small"),
        "{}",
        ran.stdout
    );
    assert_eq!(wrong(&ran), [""; 0]);
    let uki = fs::read(target(&scratch, "small_1.35.8-2_node.efi")).unwrap();
    assert!(
        osbuild_formats::uki::read(&uki).unwrap().os_release.contains("\nVERSION_ID=1.35.8-2\n")
    );
}

#[test]
fn a_uki_with_another_version_than_its_release_is_refused() {
    let scratch = workshop();
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    let image = scratch.project().join("out").join(RECIPE).join("image.raw");
    let old = fs::read(&image).unwrap();
    scratch.edit("recipes/small.toml", "inherit", "version = \"1.35.8-2\"\ninherit");
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    // The image of the previous version, which the build accepts as its own: size and inode are the
    // recorded ones, and so is the time once it is written into the stamp.
    let time = || {
        let about = fs::metadata(&image).unwrap();
        format!("[{},{}]", about.ctime(), about.ctime_nsec())
    };
    let built = time();
    fs::write(&image, old).unwrap();
    let stamp = image.with_file_name(".stamp.json");
    let text = fs::read_to_string(&stamp).unwrap();
    assert!(text.contains(&built), "{text}");
    fs::write(&stamp, text.replace(&built, &time())).unwrap();
    done(&release(&scratch, &[]));
    let ran = verify(&scratch, &[]);
    let expected =
        "WRONG  version          the release is 1.35.8-2, but its UKI has version 1.35.8";
    assert_eq!((wrong(&ran), ran.code), (vec![expected], Some(4)), "{}", ran.stdout);
}
