//! `osbuild publish aws`, with a fake cloud that verifies signatures and checksums, botocore,
//! virt-firmware, and moto as oracles.

use crate::builds::done;
use crate::cloud::{ACCESS_KEY, Call, Cloud, Fate, SECRET_KEY};
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use osbuild::checkout::Checkout;
use osbuild::engine::digest::Digest;
use osbuild_aws::Action;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const REGION: &str = "eu-central-1";

/// Signs each call with botocore, and looks up each parameter in Amazon's own description of its
/// services.
const BOTOCORE: &str = include_str!("botocore_reads.py");

/// A project with keys that uses the cloud at this address.
pub fn project(address: &str) -> Scratch {
    let mut scratch = open();
    scratch.set("AWS_ENDPOINT_URL", address);
    scratch.set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
    scratch.set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    scratch
}

pub fn publish(scratch: &Scratch, flags: &[&str]) -> Ran {
    publish_as("mine", scratch, flags)
}

pub fn publish_as(keys: &str, scratch: &Scratch, flags: &[&str]) -> Ran {
    scratch.osbuild(
        &[&["publish", "aws", RECIPE, "--region", REGION, "--owner", "team", "--key", keys], flags]
            .concat(),
    )
}

pub fn result(ran: &Ran) -> Value {
    done(ran);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

pub fn disk(scratch: &Scratch) -> Vec<u8> {
    fs::read(scratch.project().join("out").join(RECIPE).join("image.raw")).unwrap()
}

/// Runs a Python script with these arguments, and returns its output.
pub fn python(script: &str, words: &[&str]) -> String {
    let output = Command::new("python3").arg("-c").arg(script).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes calls to a file for Python.
fn written(scratch: &Scratch, calls: &[Call]) -> String {
    let one = |call: &Call| {
        let is_block = call.action == "PutSnapshotBlock";
        let body = if is_block { Vec::new() } else { call.body.clone() };
        json!({
            "service": call.service,
            "region": call.region,
            "action": call.action,
            "method": call.method,
            "path": call.path,
            "headers": call.headers,
            "sha256": Digest::of(&call.body).hex(),
            "body": String::from_utf8(body).unwrap(),
        })
    };
    let path = scratch.path("calls.json");
    fs::write(&path, Value::from_iter(calls.iter().map(one)).to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn a_published_image_has_the_disk_and_the_settings_a_node_needs() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    let ran = publish(
        &scratch,
        &[
            "--copy-to",
            "us-east-1,eu-west-1",
            "--share",
            "111122223333",
            "--public",
            "--deprecate",
            "2999-01-02",
        ],
    );
    let published = result(&ran);
    cloud.assert_no_mistakes();
    let (disk, state) = (disk(&scratch), cloud.state.lock().unwrap());
    assert_eq!(published["image-sha256"], Digest::of(&disk).hex());
    let id = published["images"][REGION].as_str().unwrap();
    let image = &state.images[&(REGION.to_owned(), id.to_owned())];
    let snapshot = &state.snapshots[&(REGION.to_owned(), image.snapshot.clone())];
    let mut rebuilt = vec![0; snapshot.gibibytes as usize * (1 << 30)];
    for (index, block) in &snapshot.blocks {
        rebuilt[*index as usize * block.len()..][..block.len()].copy_from_slice(block);
    }
    assert!(rebuilt[..disk.len()] == disk && rebuilt[disk.len()..].iter().all(|byte| *byte == 0));
    registered_as_a_node(&image.parameters, &image.snapshot, &published);
    let lock = Digest::of(scratch.read(&format!("recipes/{RECIPE}.lock")).as_bytes()).hex();
    for tags in [&image.tags, &snapshot.tags] {
        assert_eq!((tags["osbuild:recipe"].as_str(), &tags["osbuild:lock"]), (RECIPE, &lock));
        assert!(
            ["version", "linux", "kubelet", "containerd", "runc"]
                .iter()
                .all(|name| tags.contains_key(&format!("osbuild:{name}")))
        );
    }
    assert_eq!(state.images.len(), 3);
    for ((region, id), image) in &state.images {
        assert_eq!(published["images"][region], *id);
        assert_eq!(image.shared, ["111122223333", "all"]);
        assert_eq!(image.deprecated.as_deref(), Some("2999-01-02T00:00:00Z"));
        assert_eq!(image.tags["osbuild:image"], Digest::of(&disk).hex());
    }
}

/// Asserts every parameter of `RegisterImage` except the tags and the firmware's keys, which other
/// tests check.
fn registered_as_a_node(image: &BTreeMap<String, String>, snapshot: &str, published: &Value) {
    let mut rest = image.clone();
    rest.retain(|name, _| !name.starts_with("TagSpecification.") && name != "UefiData");
    let expected = [
        ("Action", "RegisterImage"),
        ("Version", "2016-11-15"),
        ("Architecture", "arm64"),
        ("BlockDeviceMapping.1.DeviceName", "/dev/xvda"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        ("BlockDeviceMapping.1.Ebs.SnapshotId", snapshot),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("BootMode", "uefi"),
        ("Description", &format!("{RECIPE} {}", published["version"].as_str().unwrap())),
        ("EnaSupport", "true"),
        ("ImdsSupport", "v2.0"),
        ("Name", published["name"].as_str().unwrap()),
        ("RootDeviceName", "/dev/xvda"),
        ("TpmSupport", "v2.0"),
        ("VirtualizationType", "hvm"),
    ];
    assert_eq!(rest, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[test]
fn botocore_signs_each_call_the_same_and_knows_each_parameter() {
    let cloud = Cloud::start();
    let mut scratch = project(&cloud.address);
    scratch.set("AWS_SESSION_TOKEN", "a+session/token==");
    let flags = [
        "--copy-to",
        "us-east-1",
        "--share",
        "111122223333",
        "--deprecate",
        "2999-01-02",
        "--prune",
        "1",
    ];
    done(&publish(&scratch, &flags));
    cloud.assert_no_mistakes();
    let calls = cloud.state.lock().unwrap().calls.clone();
    let published = python(BOTOCORE, &[&written(&scratch, &calls), SECRET_KEY]);
    assert_eq!(published.trim(), format!("{} calls", calls.len()));
    // It does detect a mistake.
    let mut other = calls.clone();
    other[3].headers.insert("x-amz-date".into(), "20200101T000000Z".into());
    let wrong = Command::new("python3")
        .args(["-c", BOTOCORE, &written(&scratch, &other), SECRET_KEY])
        .output()
        .unwrap();
    assert!(!wrong.status.success());
}

/// The firmware's variables in a `RegisterImage`, as virt-firmware reads them in this folder.
fn firmware_variables(folder: &Path, call: &Call) -> Vec<Value> {
    fs::create_dir_all(folder).unwrap();
    let data = call.parameters()["UefiData"].clone();
    assert!(data.len() <= 64 << 10);
    fs::write(folder.join("vars.aws"), &data).unwrap();
    let words = ["virt-fw-vars", "-i", "vars.aws", "--output-json", "vars.json"];
    tool(folder, "virt-firmware", &words);
    let read: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("vars.json")).unwrap()).unwrap();
    read["variables"].as_array().unwrap().clone()
}

#[test]
fn virt_firmware_reads_our_keys_from_the_uefi_data() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    done(&publish(&scratch, &[]));
    let folder = scratch.path("vars");
    let variables = firmware_variables(&folder, &cloud.calls("RegisterImage")[0]);
    done(&scratch.osbuild(&["keys", "enroll", "mine", "--to", &folder.display().to_string()]));
    assert_eq!(variables.len(), 3);
    for variable in variables {
        let list =
            fs::read(folder.join(format!("{}.esl", variable["name"].as_str().unwrap()))).unwrap();
        let hex: String = list.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(variable["data"], hex);
        assert_eq!(variable["attr"], 0x27);
    }
}

#[test]
fn a_publish_after_a_revocation_makes_an_ami_that_revokes_the_key() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    done(&publish(&scratch, &[]));
    done(&scratch.osbuild(&["keys", "rotate", "mine"]));
    let trusting = result(&publish(&scratch, &[]));
    let old = keys(&scratch, "mine").join("db-1.crt").display().to_string();
    done(&scratch.osbuild(&["keys", "revoke", "mine", "--certificate", &old]));
    let calls = cloud.names().len();
    let revoking = result(&publish(&scratch, &["--prune", "9"]));
    cloud.assert_no_mistakes();
    // The same disk: only what its firmware trusts is another.
    assert_eq!(revoking["image-sha256"], trusting["image-sha256"]);
    assert_eq!(revoking["was-there"], false);
    assert_ne!(revoking["images"], trusting["images"]);
    let made = cloud.names().split_off(calls);
    assert!(!made.iter().any(|name| name == "StartSnapshot"), "{made:?}");
    let call = cloud.calls("RegisterImage").pop().unwrap();
    let variables = firmware_variables(&scratch.path("vars"), &call);
    assert!(variables.iter().any(|variable| variable["name"] == "dbx"), "{variables:?}");
    // `--prune` counts AMIs of either kind of trust as ours.
    let pruned = result(&publish(&scratch, &["--prune", "1"]));
    let gone = pruned["removed"].as_array().unwrap();
    assert!(gone.iter().any(|gone| gone["id"] == trusting["images"][REGION]), "{pruned}");
    assert_eq!(cloud.state.lock().unwrap().images.len(), 1);
}

#[test]
fn a_dry_run_prints_the_calls_of_a_publish_and_makes_none() {
    let cloud = Cloud::start();
    // Without waits a publish makes exactly the calls of a dry run.
    cloud.state.lock().unwrap().slow = 0;
    let scratch = project(&cloud.address);
    let flags = ["--copy-to", "us-east-1", "--share", "111122223333", "--deprecate", "2999-01-02"];
    let ran = publish(&scratch, &[&flags[..], &["--dry-run"]].concat());
    done(&ran);
    assert_eq!(cloud.names(), Vec::<String>::new());
    let lines: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    done(&publish(&scratch, &flags));
    let mut shown: Vec<_> = lines
        .iter()
        .map(|line| (line["call"].as_str().unwrap().to_owned(), line["region"].clone()))
        .collect();
    let mut made: Vec<_> = cloud
        .state
        .lock()
        .unwrap()
        .calls
        .iter()
        .map(|call| (call.permission(), json!(call.region)))
        .collect();
    // Blocks arrive in any order.
    let by_text = |call: &(String, Value)| format!("{call:?}");
    shown.sort_by_key(by_text);
    made.sort_by_key(by_text);
    assert_eq!(shown, made);
    let register = lines.iter().find(|line| line["call"] == "ec2:RegisterImage").unwrap();
    assert_eq!(
        (&register["parameters"]["BootMode"], &register["parameters"]["TpmSupport"]),
        (&json!("uefi"), &json!("v2.0"))
    );
}

#[test]
fn the_policy_in_the_docs_has_exactly_the_needed_permissions() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    done(&scratch.osbuild(&["keys", "new", "far", "--token", crate::cloud::ARN]));
    let flags = ["--copy-to", "us-east-1", "--public", "--deprecate", "2999-01-02", "--prune", "1"];
    done(&publish(&scratch, &flags));
    done(&publish_as("far", &scratch, &flags));
    let made: BTreeSet<String> =
        cloud.state.lock().unwrap().calls.iter().map(Call::permission).collect();
    assert_eq!(made, Action::ALL.iter().copied().map(Action::permission).collect());
    let text = include_str!("../../docs/publish-aws.md");
    let policies = text.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut allowed = BTreeSet::new();
    for policy in policies {
        let policy: Value = serde_json::from_str(policy).unwrap();
        for statement in policy["Statement"].as_array().unwrap() {
            let actions = statement["Action"]
                .as_array()
                .unwrap()
                .iter()
                .map(|action| action.as_str().unwrap().to_owned());
            allowed.extend(actions);
        }
    }
    assert_eq!(allowed, made);
}

#[test]
fn a_key_in_kms_signs_images_that_sbverify_accepts() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    done(&scratch.osbuild(&["keys", "new", "far", "--token", crate::cloud::ARN]));
    let folder = keys(&scratch, "far");
    assert_eq!(fs::read_to_string(folder.join("db.kms")).unwrap().trim(), crate::cloud::ARN);
    assert!(!folder.join("db.key").exists());
    done(&scratch.osbuild(&["build", RECIPE, "--key", "far"]));
    let uki = scratch.project().join("out").join(RECIPE).join("node.efi").display().to_string();
    tool(&folder, "sbsigntool", &["sbverify", "--cert", "db.crt", &uki]);
    cloud.assert_no_mistakes();
    cloud.fates(|_, _| Fate::Refused(400, "AccessDeniedException"));
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "far"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("error: kms:GetPublicKey failed in eu-central-1\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: allow `kms:GetPublicKey`"), "{}", ran.stderr);
}

#[test]
fn wrong_flags_of_publish_are_refused_before_the_build() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    let aws = |flags: &[&str]| scratch.osbuild(&[&["publish", "aws", RECIPE], flags].concat());
    let cases: [(&[&str], &str); 9] = [
        (&["--region", "mars"], "`mars` is not an AWS region"),
        (&["--region", REGION, "--share", "12"], "an AWS account has 12 digits"),
        (
            &["--region", REGION, "--key", "dev"],
            "error: the keys `dev` are for development only and cannot publish an image\n",
        ),
        (
            &["--region", REGION, "--key", "mine", "--deprecate", "2020-01-01"],
            "error: `--deprecate 2020-01-01` is in the past\n",
        ),
        (
            &["--region", REGION, "--key", "mine", "--offline"],
            "error: cannot publish with `--offline`\n",
        ),
        (&["--region", REGION, "--owner", "team", "--prune", "0"], "--prune"),
        (&["--region", REGION, "--prune", "1"], "--owner <NAME>"),
        (&["--region", REGION, "--owner", "a team!"], "an owner has 1 to 128 letters"),
        (
            &[
                "--region",
                REGION,
                "--key",
                "mine",
                "--offline",
                "--dry-run",
                "--owner",
                "team",
                "--prune",
                "1",
            ],
            "error: cannot look up what `--prune` would remove with `--offline`\n",
        ),
    ];
    for (flags, why) in cases {
        let ran = aws(flags);
        assert!(ran.code == Some(2) && ran.stderr.contains(why), "{why}: {}", ran.stderr);
    }
    assert!(!scratch.project().join("out").join(RECIPE).join("image.raw").exists());
}

#[test]
fn without_credentials_nothing_is_sent_and_the_sources_are_listed() {
    let cloud = Cloud::start();
    let mut scratch = project(&cloud.address);
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ] {
        scratch.set(name, value);
    }
    let ran = publish(&scratch, &[]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("error: there are no credentials for AWS\n")
            && ran.stderr.contains("hint: set AWS_ACCESS_KEY_ID"),
        "{}",
        ran.stderr
    );
    assert_eq!(cloud.names(), Vec::<String>::new());
}

#[test]
fn a_killed_publish_continues_and_no_secret_is_printed_or_stored() {
    let cloud = Cloud::start();
    let scratch = project(&cloud.address);
    cloud.fates(|call, _| if call.action == "CompleteSnapshot" { Fate::Hung } else { Fate::Done });
    let mut command = scratch
        .command(&[], &["publish", "aws", RECIPE, "--region", REGION, "--key", "mine", "-v"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !cloud.names().iter().any(|name| name == "CompleteSnapshot") {
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", cloud.names());
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    cloud.fates(|_, _| Fate::Done);
    let ran = publish(&scratch, &["-v"]);
    done(&ran);
    assert_eq!((cloud.calls("StartSnapshot").len(), cloud.calls("PutSnapshotBlock").len()), (0, 0));
    assert_eq!(cloud.state.lock().unwrap().snapshots.len(), 1);
    for secret in [ACCESS_KEY, SECRET_KEY] {
        assert!(
            !ran.stderr.contains(secret) && !ran.stdout.contains(secret),
            "{}{}",
            ran.stderr,
            ran.stdout
        );
        let found =
            tool(&scratch.path(""), "grep", &["sh", "-c", &format!("! grep -rlF '{secret}' .")]);
        assert_eq!(found, "");
    }
}

#[test]
fn the_commit_tag_is_the_checked_out_commit() {
    let scratch = Scratch::new();
    let git = |folder: &Path, words: &[&str]| {
        let git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"];
        tool(folder, "git", &[&git[..], words].concat()).trim().to_owned()
    };
    let (project, other) = (scratch.project(), scratch.path("other"));
    let commit = |root: &Path| Checkout { root: root.to_owned() }.commit();
    assert_eq!(commit(&project), None);
    git(&project, &["init", "--quiet"]);
    assert_eq!(commit(&project), None);
    git(&project, &["commit", "--quiet", "--allow-empty", "-m", "one"]);
    let one = git(&project, &["rev-parse", "HEAD"]);
    assert_eq!(commit(&project), Some(one.clone()));
    git(&project, &["pack-refs", "--all"]);
    assert_eq!(commit(&project), Some(one.clone()));
    git(&project, &["worktree", "add", "--quiet", "-b", "side", &other.display().to_string()]);
    git(&other, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
    assert_eq!(
        (commit(&project), commit(&other)),
        (Some(one), Some(git(&other, &["rev-parse", "HEAD"])))
    );
    git(&other, &["checkout", "--quiet", "--detach"]);
    assert_eq!(commit(&other), Some(git(&other, &["rev-parse", "HEAD"])));
}
