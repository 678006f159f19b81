//! The pipelines in `ci/pipelines`, which users copy: other people's linters read them, each step
//! of ours is one `osbuild` command, and all of them run, job by job, against a cloud of ours.

use crate::cloud::{ACCESS_KEY, ARN, Cloud, P256_ARN, SECRET_KEY};
use crate::keys::tool;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workflow::{Host, Workflow, all_done, folder};
use crate::workshop::open_with_layers;
use clap::Parser;
use osbuild::cli::Cli;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Of the tools that read workflows, the one that pip has not.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// What a version is called that is in none of the tests' recipes by name.
fn version(scratch: &Scratch) -> String {
    scratch.plan().product.version
}

/// The words of a linter: actionlint, zizmor as strict as it gets without being a matter of taste,
/// and the schema.
const LINTERS: [&[&str]; 3] = [
    &["go", "run", ACTIONLINT, "-no-color"],
    &["zizmor", "--offline", "--no-progress", "--persona", "pedantic", "--min-severity", "low"],
    &["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
];

#[test]
fn the_linters_accept_the_workflows() {
    let files: Vec<String> =
        Workflow::all().iter().map(|workflow| workflow.path.display().to_string()).collect();
    assert_eq!(files.len(), 4);
    for linter in LINTERS {
        let words: Vec<&str> =
            linter.iter().copied().chain(files.iter().map(String::as_str)).collect();
        tool(&folder(), "Go, and by pip3 zizmor and check-jsonschema", &words);
    }
}

#[test]
fn a_linter_would_find_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("release.yml");
    let text = fs::read_to_string(&Workflow::named("release").path).unwrap();
    let [actionlint, zizmor, schema] = LINTERS;
    let mistakes = [
        (actionlint, "needs: [list, build]", "needs: [list, builds]"),
        (actionlint, "needs.list.outputs.left", "needs.list.outputs.right"),
        (zizmor, "persist-credentials: false", "fetch-depth: 1"),
        (zizmor, "@de0fac2e4500dabe0009e67214ff5f5447ce83dd", "@v6"),
        (schema, "runs-on:", "runs-at:"),
    ];
    for (linter, right, wrong) in mistakes {
        assert!(text.contains(right), "{right}");
        fs::write(&path, text.replace(right, wrong)).unwrap();
        let found = Command::new(linter[0])
            .args(&linter[1..])
            .arg(&path)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(!found.status.success(), "{linter:?} overlooks `{wrong}`");
    }
}

#[test]
fn each_workflow_step_is_one_valid_osbuild_command() {
    let mut verbs = Vec::new();
    for workflow in Workflow::all() {
        for step in workflow.steps().iter().filter(|step| step["run"].is_string()) {
            let line = step["run"].as_str().unwrap();
            // What asks GitHub itself has a token for that, and nothing of ours in it.
            if step["env"]["GH_TOKEN"].is_string() {
                assert!(line.contains("gh ") && !line.contains("osbuild"), "{line}");
                continue;
            }
            let words = words(line);
            assert_eq!(words[..2], ["cargo", "osbuild"], "{line}");
            // The same words reach `osbuild`: nothing but them and variables is in the line.
            Cli::try_parse_from(&words[1..]).unwrap_or_else(|error| panic!("{line}: {error}"));
            verbs.push(words[2].clone());
        }
    }
    for verb in ["check", "sources", "build", "verify", "publish", "release", "summary"] {
        assert!(verbs.iter().any(|other| other == verb), "no pipeline has `{verb}`");
    }
}

/// The words of a command, with variables of the job in their places. Only a report's redirection
/// is anything else.
fn words(line: &str) -> Vec<String> {
    let line = line.strip_suffix(" >>\"$GITHUB_STEP_SUMMARY\"").unwrap_or(line);
    let variables = [
        ("$RECIPE", RECIPE),
        ("$REGION", "eu-central-1"),
        ("$VERSION", "1.35.8"),
        ("$CHANNEL", "stable"),
        ("$GITHUB_REPOSITORY", "organization/repository"),
    ];
    let line =
        variables.iter().fold(line.to_owned(), |line, (name, value)| line.replace(name, value));
    let plain = |word: &str| word.trim_matches('"').to_owned();
    assert!(
        !line.contains(['\n', ';', '|', '&', '>', '<', '`', '$', '\'', '(', '\\']),
        "{line} is more than one command"
    );
    line.split(' ').map(plain).collect()
}

#[test]
fn workflow_jobs_name_existing_recipes_and_have_no_unused_rights() {
    let root = folder().join("../../..");
    let mut builds = std::collections::BTreeSet::new();
    for workflow in Workflow::all() {
        assert_eq!(
            workflow.text["permissions"],
            serde_json::json!({}),
            "{}",
            workflow.path.display()
        );
        for (name, job) in workflow.jobs() {
            let of_matrix = job["strategy"]["matrix"]["recipe"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|recipe| recipe.as_str().unwrap());
            let listed = job["steps"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|step| step["env"]["RECIPES"].as_str());
            let recipes: Vec<&str> =
                of_matrix.chain(listed.flat_map(|recipes| recipes.split(' '))).collect();
            recipes.iter().for_each(|recipe| {
                assert!(root.join(format!("recipes/{recipe}.lock")).is_file(), "{recipe}")
            });
            builds.extend((!recipes.is_empty()).then_some(recipes.join(" ")));
            let calls_aws = job.to_string().contains("configure-aws-credentials");
            let writes = job.to_string().contains("github_token");
            assert_eq!(job["permissions"]["id-token"] == "write", calls_aws, "{name}");
            assert_eq!(job["permissions"]["contents"] == "write", writes, "{name}");
            assert_eq!(
                job["environment"] == "release",
                calls_aws,
                "{name}: somebody has to approve what is signed"
            );
        }
    }
    assert_eq!(builds.len(), 1, "workflows build different recipes: {builds:?}");
}

/// What stands for `gh`: it knows the tags of the repository and the files of its releases, has jq
/// read them, and notes which workflows are started.
const GH: &str = r#"#!/bin/bash
set -euo pipefail
if [ "$1 $2" = "workflow run" ]; then echo "$3" >>GITHUB/started; exit; fi
[ "$1 $2 $4" = "api --paginate --jq" ] && [ "$GH_TOKEN" = a-token ]
case "$3" in
repos/organization/repository/git/matching-refs/tags/v)
    git -C ORIGIN for-each-ref --format '{"ref":"%(refname)"}' 'refs/tags/v*' | jq -s . ;;
repos/organization/repository/releases)
    mkdir -p GITHUB/attached
    find GITHUB/attached -type f -printf '%P\n' |
        jq -R 'split("/") | {tag_name: .[0], assets: [{name: .[1]}]}' | jq -s . ;;
esac | jq -r "$5"
"#;

/// GitHub with a repository of a project whose keys are in KMS, as builder/docs/release-pipeline.md
/// says, and a branch for releases without any.
fn github(cloud: &Cloud) -> (Scratch, Host) {
    let mut scratch = open_with_layers();
    scratch.set("AWS_ENDPOINT_URL", &cloud.address);
    scratch.set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
    scratch.set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    let made = [
        &["keys", "new", "prod", "--token", ARN][..],
        &["keys", "rotate", "prod", "--role", "release", "--token", P256_ARN],
    ];
    all_done(&made.map(|words| scratch.osbuild(words)));
    fs::copy(folder().join("../../../.gitignore"), scratch.project().join(".gitignore")).unwrap();
    let git = |words: &[&str]| {
        tool(
            &scratch.project(),
            "git",
            &[&["git", "-c", "user.name=x", "-c", "user.email=x@example.com"], words].concat(),
        )
    };
    git(&["init", "--quiet", "--initial-branch", "updates"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    git(&["switch", "--quiet", "--orphan", "main"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "x"]);
    assert!(!git(&["ls-files"]).contains(".key"), "a private key is in git");
    git(&["tag", "v1"]);
    let bin = scratch.path("bin");
    fs::create_dir(&bin).unwrap();
    let gh = GH
        .replace("ORIGIN", &scratch.project().display().to_string())
        .replace("GITHUB", &scratch.path("github").display().to_string());
    fs::write(bin.join("gh"), gh).unwrap();
    fs::set_permissions(bin.join("gh"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let host = Host {
        origin: scratch.project(),
        folder: scratch.path("github"),
        values: BTreeMap::from([
            ("matrix.recipe", RECIPE.to_owned()),
            ("matrix.tag", "v1".to_owned()),
            ("github.token", "a-token".to_owned()),
            ("github.ref", "refs/heads/main".to_owned()),
            ("github.sha", "0123456789012345678901234567890123456789".to_owned()),
            ("RECIPES", RECIPE.to_owned()),
            ("vars.AWS_REGION", "eu-central-1".to_owned()),
            ("vars.AWS_ROLE", "arn:aws:iam::111122223333:role/release".to_owned()),
            ("inputs.recipe", RECIPE.to_owned()),
            ("inputs.version", version(&scratch)),
            ("inputs.channel", "stable".to_owned()),
        ]),
        environment: pairs(&[
            ("PATH", &path),
            ("AWS_ENDPOINT_URL", &cloud.address),
            ("GITHUB_REPOSITORY", "organization/repository"),
        ]),
        credentials: pairs(&[
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ]),
    };
    fs::create_dir(&host.folder).unwrap();
    (scratch, host)
}

#[test]
fn the_workflows_build_twice_compare_sign_publish_and_promote() {
    let cloud = Cloud::start();
    let (scratch, host) = github(&cloud);
    let (store, pull_request) = (scratch.path("cache"), Workflow::named("pull-request"));
    ["check", "build"].iter().for_each(|job| all_done(&host.run(&pull_request, job, Some(&store))));
    let report = fs::read_to_string(host.report()).unwrap();
    assert!(
        report.starts_with(&format!(
            "## `{RECIPE}` for arm64\n\nThere was no release to compare it with.\n"
        )),
        "{report}"
    );
    assert!(
        cloud.names().iter().all(|call| ["GetPublicKey", "Sign"].contains(&call.as_str())),
        "{:?}",
        cloud.names()
    );

    let release = Workflow::named("release");
    all_done(&host.run(&release, "build", Some(&store)));
    // The other machine has no source of its own and asks no registry.
    let ran = host.run(&release, "release", None);
    all_done(&ran);
    cloud.is_content();
    assert_eq!((cloud.calls("RegisterImage").len(), ran.len()), (1, 4));
    assert!(ran[0].stdout.contains("byte for byte"), "{}", ran[0].stdout);
    let end = |name: &str| {
        host.attached().join("v1").join(format!("{RECIPE}_{}_{name}", version(&scratch))).is_file()
    };
    assert!(
        ["sbom.spdx.json", "provenance.dsse.json", "recipe.lock", "sources.txt"]
            .iter()
            .all(|name| end(name))
    );

    fs::remove_file(host.report()).unwrap();
    all_done(&host.run(&pull_request, "build", Some(&store)));
    let report = fs::read_to_string(host.report()).unwrap();
    assert!(
        report.contains(&format!("Compared with `updates@{RECIPE}_{}`.\n", version(&scratch))),
        "{report}"
    );
    let promote = Workflow::named("promote");
    let ran = host.run(&promote, "promote", None);
    all_done(&ran);
    assert!(ran[1].stdout.contains("stable"), "{}", ran[1].stdout);
    // A release that GitHub cancelled for it is not lost.
    all_done(&host.run(&promote, "release", None));
    assert_eq!(fs::read_to_string(host.folder.join("started")).unwrap(), "release.yml\n");
}

/// Commits another version of the recipe with this tag.
fn tag(scratch: &Scratch, tag: &str, version: &str) {
    let recipe = scratch.read("recipes/small.toml");
    let rest: String = recipe
        .lines()
        .filter(|line| !line.starts_with("version = "))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(
        scratch.project().join("recipes/small.toml"),
        format!("version = \"{version}\"\n{rest}"),
    )
    .unwrap();
    let git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"];
    tool(
        &scratch.project(),
        "git",
        &[&git[..], &["commit", "--quiet", "--all", "-m", tag]].concat(),
    );
    tool(&scratch.project(), "git", &["git", "tag", tag]);
}

/// A run of `release` from its beginning: lists what is left, and builds and releases that in
/// order. Gives the tags.
fn release_what_is_left(scratch: &Scratch, host: &Host) -> Vec<String> {
    let release = Workflow::named("release");
    let left = host.list(&release, "list", "left");
    for (job, store) in [("build", Some(scratch.path("cache"))), ("release", None)] {
        for entry in &left {
            let host =
                host.with([("matrix.tag", &entry["tag"]), ("matrix.recipe", &entry["recipe"])]);
            all_done(&host.run(&release, job, store.as_deref()));
        }
    }
    left.into_iter().map(|mut entry| entry.remove("tag").unwrap()).collect()
}

#[test]
fn tags_pushed_at_once_are_all_released_in_order() {
    let cloud = Cloud::start();
    let (scratch, host) = github(&cloud);
    assert_eq!(release_what_is_left(&scratch, &host), ["v1"]);
    // While it ran, three more came. GitHub started a run for each, and kept the last one that
    // waited.
    [("v1.9", "1.35.8-2"), ("v1.10", "1.35.8-3"), ("v2", "1.35.8-4")]
        .iter()
        .for_each(|(name, version)| tag(&scratch, name, version));
    assert_eq!(release_what_is_left(&scratch, &host), ["v1.9", "v1.10", "v2"]);
    assert_eq!(release_what_is_left(&scratch, &host), [""; 0]);
    let updates = scratch.path("updates");
    tool(
        &scratch.path(""),
        "git",
        &[
            "git",
            "clone",
            "--quiet",
            "--branch",
            "updates",
            scratch.project().to_str().unwrap(),
            updates.to_str().unwrap(),
        ],
    );
    let ran = scratch.osbuild(&["verify", updates.to_str().unwrap(), "--key", "prod", "--all"]);
    all_done(std::slice::from_ref(&ran));
    assert!(
        ran.stdout.contains("candidate_small.json is version 1.35.8-4 of small"),
        "{}",
        ran.stdout
    );
    for version in ["1.35.8", "1.35.8-2", "1.35.8-3", "1.35.8-4"] {
        let named = |entry: fs::DirEntry| {
            entry.file_name().to_str().unwrap().ends_with(&format!(".small_{version}_node.efi"))
        };
        assert!(
            fs::read_dir(updates.join("targets")).unwrap().any(|entry| named(entry.unwrap())),
            "{version}"
        );
    }
    // One whose files did not all arrive is released once more, or says why it cannot be.
    let provenance = host.attached().join("v2").join("small_1.35.8-4_provenance.dsse.json");
    fs::remove_file(provenance).unwrap();
    let left = host.list(&Workflow::named("release"), "list", "left");
    assert_eq!((left.len(), left[0]["tag"].as_str()), (1, "v2"));
}

#[test]
fn a_pull_requests_first_build_reuses_what_main_has_compiled() {
    let cloud = Cloud::start();
    let (scratch, host) = github(&cloud);
    let pull_request = |number: &str| host.with([("github.ref", number), ("github.sha", number)]);
    let (main, pull) = (Workflow::named("main"), Workflow::named("pull-request"));
    // The machine of `main` has every source in its store, and no other machine has anything.
    let of_main = host.run(&main, "build", Some(&scratch.path("cache")));
    all_done(&of_main);
    let first = pull_request("refs_pull_1_merge").run(&pull, "build", None);
    all_done(&first);
    let compiled = |ran: &Ran| {
        ran.stderr
            .lines()
            .filter(|line| ["kernel", "kubelet", "layer"].iter().any(|step| line.starts_with(step)))
            .count()
    };
    assert!(
        compiled(&of_main[0]) >= 3 && compiled(&first[0]) == 0,
        "{}\n{}",
        of_main[0].stderr,
        first[0].stderr
    );
    // What a pull request has kept, no other one reads: it could have put anything there.
    let kept = host.folder.join("caches/refs_pull_1_merge");
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 1);
    fs::remove_dir_all(host.folder.join("caches/refs_heads_main")).unwrap();
    let other = pull_request("refs_pull_2_merge").run(&pull, "build", None);
    assert!(other[0].code != Some(0), "{}", other[0].stderr);
}

#[test]
fn an_image_the_second_machine_cannot_reproduce_is_not_published() {
    let cloud = Cloud::start();
    let (scratch, host) = github(&cloud);
    let release = Workflow::named("release");
    all_done(&host.run(&release, "build", Some(&scratch.path("cache"))));
    let image = host
        .folder
        .join("handed-on")
        .join(format!("v1_{RECIPE}"))
        .join("out")
        .join(RECIPE)
        .join("image.raw");
    change_last_byte_of_a_slot(&image);
    let before = cloud.names().len();
    let ran = host.run(&release, "release", None);
    assert_eq!((ran.len(), ran[0].code), (1, Some(4)), "{}", ran[0].stderr);
    assert!(
        ran[0].stderr.contains(&format!("it is not what `{RECIPE}` gives")),
        "{}",
        ran[0].stderr
    );
    assert_eq!(cloud.names().len(), before);
}

/// Changes something that is neither slotboot nor the UKI: the last byte that is not zero, in front
/// of the backup table.
fn change_last_byte_of_a_slot(image: &Path) {
    let mut bytes = fs::read(image).unwrap();
    let backup = bytes.len() - (33 << 9);
    bytes[backup - (1 << 20)] ^= 1;
    fs::write(image, bytes).unwrap();
}
