//! The pipelines in `ci/pipelines`, which users copy: other people's linters read them, each step of ours is one `osbuild` command, and all of
//! them run, job by job, against a cloud of ours.

use crate::cloud::{ACCESS_KEY, ARN, Cloud, P256_ARN, SECRET_KEY};
use crate::keys::tool;
use crate::scratch::{RECIPE, Scratch};
use crate::workflow::{Host, Workflow, all_done, folder};
use crate::workshop::open_with_layers;
use clap::Parser;
use osbuild::cli::Cli;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Of the tools that read workflows, the one that pip has not.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// What a version is called that is in none of the tests' recipes by name.
fn version(scratch: &Scratch) -> String {
    scratch.plan().resolved.version
}

/// The words of a linter: actionlint, zizmor as strict as it gets without being a matter of taste, and the schema.
const LINTERS: [&[&str]; 3] = [
    &["go", "run", ACTIONLINT, "-no-color"],
    &["zizmor", "--offline", "--no-progress", "--persona", "pedantic", "--min-severity", "low"],
    &["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
];

#[test]
fn other_peoples_linters_find_nothing_to_say() {
    let files: Vec<String> = Workflow::all().iter().map(|workflow| workflow.path.display().to_string()).collect();
    assert_eq!(files.len(), 3);
    for linter in LINTERS {
        let words: Vec<&str> = linter.iter().copied().chain(files.iter().map(String::as_str)).collect();
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
        (actionlint, "needs: build", "needs: builds"),
        (zizmor, "persist-credentials: false", "fetch-depth: 1"),
        (zizmor, "@de0fac2e4500dabe0009e67214ff5f5447ce83dd", "@v6"),
        (schema, "runs-on:", "runs-at:"),
    ];
    for (linter, right, wrong) in mistakes {
        assert!(text.contains(right), "{right}");
        fs::write(&path, text.replace(right, wrong)).unwrap();
        let said = Command::new(linter[0]).args(&linter[1..]).arg(&path).current_dir(folder.path()).output().unwrap();
        assert!(!said.status.success(), "{linter:?} overlooks `{wrong}`");
    }
}

#[test]
fn each_step_is_one_osbuild_command_that_osbuild_understands() {
    let mut verbs = Vec::new();
    for workflow in Workflow::all() {
        for line in workflow.steps().iter().filter_map(|step| step["run"].as_str()) {
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

/// The words of a command, with variables of the job in their places. Only a report's redirection is anything else.
fn words(line: &str) -> Vec<String> {
    let line = line.strip_suffix(" >>\"$GITHUB_STEP_SUMMARY\"").unwrap_or(line);
    let variables = [
        ("$RECIPE", RECIPE),
        ("$REGION", "eu-central-1"),
        ("$VERSION", "1.35.8"),
        ("$CHANNEL", "stable"),
        ("$GITHUB_REPOSITORY", "organization/repository"),
    ];
    let line = variables.iter().fold(line.to_owned(), |line, (name, value)| line.replace(name, value));
    let plain = |word: &str| word.trim_matches('"').to_owned();
    assert!(!line.contains(['\n', ';', '|', '&', '>', '<', '`', '$', '\'', '(', '\\']), "{line} is more than one command");
    line.split(' ').map(plain).collect()
}

#[test]
fn every_job_of_a_pipeline_is_about_recipes_that_there_are_and_has_no_rights_that_it_does_not_use() {
    let root = folder().join("../../..");
    for workflow in Workflow::all() {
        assert_eq!(workflow.text["permissions"], serde_json::json!({}), "{}", workflow.path.display());
        for (name, job) in workflow.jobs() {
            let recipes = job["strategy"]["matrix"]["recipe"].as_array().into_iter().flatten();
            recipes.for_each(|recipe| assert!(root.join(format!("recipes/{}.lock", recipe.as_str().unwrap())).is_file()));
            let calls_aws = job.to_string().contains("configure-aws-credentials");
            let writes = job.to_string().contains("github_token");
            assert_eq!(job["permissions"]["id-token"] == "write", calls_aws, "{name}");
            assert_eq!(job["permissions"]["contents"] == "write", writes, "{name}");
            assert_eq!(job["environment"] == "release", calls_aws, "{name}: somebody has to approve what is signed");
        }
    }
}

/// GitHub with a repository of a project whose keys are in KMS, as builder/docs/release-pipeline.md says, and a branch for releases without any.
fn github(cloud: &Cloud) -> (Scratch, Host) {
    let mut scratch = open_with_layers();
    scratch.set("AWS_ENDPOINT_URL", &cloud.address);
    scratch.set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
    scratch.set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    let made =
        [&["keys", "new", "prod", "--token", ARN][..], &["keys", "rotate", "prod", "--role", "release", "--token", P256_ARN]];
    all_done(&made.map(|words| scratch.osbuild(words)));
    fs::copy(folder().join("../../../.gitignore"), scratch.project().join(".gitignore")).unwrap();
    let git = |words: &[&str]| {
        tool(&scratch.project(), "git", &[&["git", "-c", "user.name=x", "-c", "user.email=x@example.com"], words].concat())
    };
    git(&["init", "--quiet", "--initial-branch", "updates"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    git(&["switch", "--quiet", "--orphan", "main"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "x"]);
    assert!(!git(&["ls-files"]).contains(".key"), "a private key is in git");
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let host = Host {
        origin: scratch.project(),
        folder: scratch.path("github"),
        values: BTreeMap::from([
            ("matrix.recipe", RECIPE.to_owned()),
            ("vars.AWS_REGION", "eu-central-1".to_owned()),
            ("vars.AWS_ROLE", "arn:aws:iam::111122223333:role/release".to_owned()),
            ("inputs.recipe", RECIPE.to_owned()),
            ("inputs.version", version(&scratch)),
            ("inputs.channel", "stable".to_owned()),
        ]),
        environment: pairs(&[
            ("PATH", &std::env::var("PATH").unwrap()),
            ("AWS_ENDPOINT_URL", &cloud.address),
            ("GITHUB_REPOSITORY", "organization/repository"),
        ]),
        credentials: pairs(&[("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)]),
    };
    fs::create_dir(&host.folder).unwrap();
    (scratch, host)
}

#[test]
fn the_pipelines_build_twice_compare_sign_publish_release_report_and_promote() {
    let cloud = Cloud::start();
    let (scratch, host) = github(&cloud);
    let (store, pull_request) = (scratch.path("cache"), Workflow::named("pull-request"));
    ["check", "build"].iter().for_each(|job| all_done(&host.run(&pull_request, job, Some(&store))));
    let report = fs::read_to_string(host.report()).unwrap();
    assert!(report.starts_with(&format!("## `{RECIPE}` for arm64\n\nThere was no release to compare it with.\n")), "{report}");
    assert!(cloud.names().iter().all(|call| ["GetPublicKey", "Sign"].contains(&call.as_str())), "{:?}", cloud.names());

    let release = Workflow::named("release");
    all_done(&host.run(&release, "build", Some(&store)));
    // The other machine has no source of its own and asks no registry.
    let ran = host.run(&release, "release", None);
    all_done(&ran);
    cloud.is_content();
    assert_eq!((cloud.calls("RegisterImage").len(), ran.len()), (1, 4));
    assert!(ran[0].data.contains("byte for byte"), "{}", ran[0].data);
    let end = |name: &str| host.attached().join(format!("{RECIPE}_{}_{name}", version(&scratch))).is_file();
    assert!(["sbom.spdx.json", "provenance.dsse.json", "recipe.lock", "sources.txt"].iter().all(|name| end(name)));

    fs::remove_file(host.report()).unwrap();
    all_done(&host.run(&pull_request, "build", Some(&store)));
    let report = fs::read_to_string(host.report()).unwrap();
    assert!(report.contains(&format!("Compared with `updates@{RECIPE}_{}`.\n", version(&scratch))), "{report}");
    let ran = host.run(&Workflow::named("promote"), "promote", None);
    all_done(&ran);
    assert!(ran[1].data.contains("stable"), "{}", ran[1].data);
}

#[test]
fn an_image_that_the_other_machine_does_not_get_is_neither_signed_nor_published() {
    let cloud = Cloud::start();
    let (scratch, host) = github(&cloud);
    let release = Workflow::named("release");
    all_done(&host.run(&release, "build", Some(&scratch.path("cache"))));
    let image = host.folder.join("handed-on").join(RECIPE).join("out").join(RECIPE).join("image.raw");
    change_last_byte_of_a_slot(&image);
    let before = cloud.names().len();
    let ran = host.run(&release, "release", None);
    assert_eq!((ran.len(), ran[0].code), (1, Some(4)), "{}", ran[0].said);
    assert!(ran[0].said.contains(&format!("it is not what `{RECIPE}` gives")), "{}", ran[0].said);
    assert_eq!(cloud.names().len(), before);
}

/// Changes something that is neither slotboot nor the UKI: the last byte that is not zero, in front of the backup table.
fn change_last_byte_of_a_slot(image: &Path) {
    let mut bytes = fs::read(image).unwrap();
    let backup = bytes.len() - (33 << 9);
    bytes[backup - (1 << 20)] ^= 1;
    fs::write(image, bytes).unwrap();
}
