//! The statements of a release's provenance, and its signature.

use crate::builds::done;
use crate::interrupted::{runs, slow, wait_until};
use crate::keys::{keys, tool};
use crate::releases::{folder, release, released, target, verify, workshop, wrong};
use crate::scratch::{RECIPE, Ran, Scratch, copy};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;

#[test]
fn a_version_of_the_command_line_is_in_the_release_and_its_provenance() {
    let scratch = workshop();
    done(&release(&scratch, &["--set", "version=1.35.8-7"]));
    let statement = provenance(&scratch);
    let parameters = &statement["predicate"]["buildDefinition"]["externalParameters"];
    assert_eq!(parameters["version"], "1.35.8-7");
    assert_eq!(parameters["set"], json!({ "version": "1.35.8-7" }));
    let plan = scratch.read("out/small/plan.toml");
    assert!(plan.contains("version = \"1.35.8-7\"  # --set\n"), "{plan}");
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);

    for (words, problem) in [
        (["lock", "small", "--set", "version=1"], "`--set` has no effect on this verb"),
        (["build", "small", "--set", "versio=1"], "did you mean `version`?"),
        (["build", "small", "--set", "version"], "has no `=`"),
    ] {
        let ran = scratch.osbuild(&words);
        assert!(ran.code == Some(2) && ran.stderr.contains(problem), "{}", ran.stderr);
    }
}

#[test]
fn the_provenance_names_the_commit_and_whether_it_was_clean() {
    let scratch = workshop();
    done(&release(&scratch, &[]));
    assert_eq!(commit(&scratch), None, "the project is not a git checkout");
    let git = |line: &str| git(&scratch, line);
    check_in(&scratch);
    scratch.edit("recipes/small.toml", "inherit = ", "version = \"2\"\ninherit = ");
    for is_dirty in [true, false] {
        if !is_dirty {
            git("commit --quiet --all --message second");
        }
        fs::remove_dir_all(folder(&scratch)).unwrap();
        done(&release(&scratch, &[]));
        let found = commit(&scratch).unwrap();
        let head = git("rev-parse HEAD");
        assert_eq!(
            (&found["digest"]["gitCommit"], &found["annotations"]["dirty"]),
            (&head.into(), &is_dirty.into())
        );
        assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
    }
}

#[test]
fn the_folders_of_a_release_within_the_checkout_leave_it_clean() {
    let scratch = workshop();
    check_in(&scratch);
    done(&scratch.osbuild(&["sources", "export", RECIPE, "sources[1]"]));
    let both = ["--sources", "sources[1]", "--to", "updates"];
    // The second time, the folder of the release is there already.
    for (flags, is_dirty) in [(&both[..], false), (&both, false), (&["--to", "other"], true)] {
        done(&release(&scratch, flags));
        let to = scratch.project().join(flags.last().unwrap());
        copy(&to.join("targets"), &folder(&scratch).join("targets"));
        copy(&to.join("metadata"), &folder(&scratch).join("metadata"));
        assert_eq!(commit(&scratch).unwrap()["annotations"]["dirty"], is_dirty, "{flags:?}");
        fs::remove_dir_all(folder(&scratch)).unwrap();
    }
}

#[test]
fn a_commit_during_the_build_leaves_the_first_one_in_the_provenance_as_changed() {
    let scratch = slow("4.216");
    done(&scratch.osbuild(&["keys", "new", "mine", "--as-of", "2026-01-01"]));
    check_in(&scratch);
    let first = git(&scratch, "rev-parse HEAD");
    let words = ["release", RECIPE, "--key", "mine", "--as-of", "2026-11-21"];
    let mut command = scratch.command(&[], &words);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| runs("sleep 4.216"));
    git(&scratch, "commit --quiet --allow-empty --message second");
    done(&Ran::from(child.wait_with_output().unwrap()));
    let found = commit(&scratch).unwrap();
    assert_eq!(
        (&found["digest"]["gitCommit"], &found["annotations"]["dirty"]),
        (&first.into(), &true.into())
    );
}

/// Makes the project a git checkout with one commit.
fn check_in(scratch: &Scratch) {
    fs::write(scratch.project().join(".gitignore"), "/out\n/keys\n").unwrap();
    git(scratch, "init --quiet");
    git(scratch, "add .");
    git(scratch, "commit --quiet --message first");
}

fn git(scratch: &Scratch, line: &str) -> String {
    let author = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"];
    let words = [&author[..], &line.split(' ').collect::<Vec<_>>()].concat();
    tool(&scratch.project(), "git", &words).trim().to_owned()
}

/// The commit in the provenance of the release.
fn commit(scratch: &Scratch) -> Option<Value> {
    let statement = provenance(scratch);
    let inputs = &statement["predicate"]["buildDefinition"]["resolvedDependencies"];
    inputs.as_array().unwrap().iter().find(|one| one["name"] == "project").cloned()
}

/// The provenance of the release, after openssl accepted its signature by `mine`.
pub fn provenance(scratch: &Scratch) -> Value {
    let envelope: Value =
        serde_json::from_slice(&fs::read(target(scratch, "_provenance.dsse.json")).unwrap())
            .unwrap();
    let decoded = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let payload = decoded(&envelope["payload"]);
    let signed = [
        format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len()).into_bytes(),
        payload.clone(),
    ]
    .concat();
    fs::write(scratch.path("signed"), signed).unwrap();
    fs::write(scratch.path("signature"), decoded(&envelope["signatures"][0]["sig"])).unwrap();
    let key = keys(scratch, "mine").join("release.pub").display().to_string();
    let words = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        &key,
        "-rawin",
        "-in",
        "signed",
        "-sigfile",
        "signature",
    ];
    assert!(tool(&scratch.path(""), "openssl", &words).contains("Signature Verified Successfully"));
    serde_json::from_slice(&payload).unwrap()
}

#[test]
fn openssl_finds_a_good_signature_in_the_provenance() {
    let scratch = released();
    let statement = provenance(&scratch);
    assert_eq!(
        (&statement["_type"], &statement["predicateType"]),
        (&"https://in-toto.io/Statement/v1".into(), &"https://slsa.dev/provenance/v1".into())
    );
    assert_eq!(statement["subject"].as_array().unwrap().len(), 5);
    let dependencies =
        statement["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    assert_eq!(dependencies.len(), scratch.sources().len());
}
