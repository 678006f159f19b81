//! The pipelines in `ci/pipelines`, which users copy. Third-party linters check them, and each of
//! our steps must be one `osbuild` command. The steps of a release run here in order, on two
//! checkouts, with a fake cloud. Everything else runs only on GitHub.

use crate::builds::done;
use crate::cloud::{ACCESS_KEY, ARN, Cloud, P256_ARN, SECRET_KEY};
use crate::keys::tool;
use crate::scratch::{RECIPE, Ran, Scratch, copy};
use crate::workshop::open_with_layers;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use osbuild::cli::Cli;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The linter that is not a Python package.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// The linters: actionlint, zizmor with its pedantic persona, and the JSON schema.
const LINTERS: [&[&str]; 3] = [
    &["go", "run", ACTIONLINT, "-no-color"],
    &["zizmor", "--offline", "--no-progress", "--persona", "pedantic", "--min-severity", "low"],
    &["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
];

/// A workflow of GitHub Actions.
struct Workflow {
    path: PathBuf,
    text: Value,
}

impl Workflow {
    fn named(name: &str) -> Self {
        let path = folder().join(format!("{name}.yml"));
        let text = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        Workflow { path, text }
    }

    fn all() -> Vec<Self> {
        let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| Workflow::named(path.file_stem().unwrap().to_str().unwrap())).collect()
    }

    fn jobs(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.text["jobs"].as_object().unwrap().iter()
    }

    fn steps(&self, job: &str) -> &[Value] {
        self.text["jobs"][job]["steps"].as_array().unwrap()
    }

    /// The shell commands of a job, in order.
    fn commands(&self, job: &str) -> Vec<&str> {
        self.steps(job).iter().filter_map(|step| step["run"].as_str()).collect()
    }

    /// The position and the parameters of the step of a job that uses an action.
    fn action(&self, job: &str, name: &str) -> (usize, &Value) {
        let uses = |step: &Value| step["uses"].as_str().is_some_and(|uses| uses.starts_with(name));
        let place = self.steps(job).iter().position(uses).unwrap_or_else(|| panic!("{name}"));
        (place, &self.steps(job)[place]["with"])
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("ci/pipelines/github")
}

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
fn each_linter_finds_a_mistake() {
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
        let output = Command::new(linter[0])
            .args(&linter[1..])
            .arg(&path)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(!output.status.success(), "{linter:?} overlooks `{wrong}`");
    }
}

#[test]
fn each_workflow_step_is_one_valid_osbuild_command() {
    let mut verbs = BTreeSet::new();
    for workflow in Workflow::all() {
        for (name, job) in workflow.jobs() {
            for step in workflow.steps(name).iter().filter(|step| step["run"].is_string()) {
                let line = step["run"].as_str().unwrap();
                // A step with a GitHub token calls only `gh`, not `osbuild`.
                if step["env"]["GH_TOKEN"].is_string() {
                    assert!(line.contains("gh ") && !line.contains("osbuild"), "{line}");
                    continue;
                }
                let words = words(line, &job["env"]);
                assert_eq!(words[..2], ["cargo", "osbuild"], "{line}");
                Cli::try_parse_from(&words[1..]).unwrap_or_else(|error| panic!("{line}: {error}"));
                verbs.insert(words[2].clone());
            }
        }
    }
    for verb in ["check", "sources", "build", "verify", "publish", "release", "summary"] {
        assert!(verbs.contains(verb), "no pipeline has `{verb}`");
    }
}

/// The words of a command, with the job's variables replaced. The redirection of a report is the
/// only other shell syntax.
fn words(line: &str, environment: &Value) -> Vec<String> {
    let line = line.strip_suffix(" >>\"$GITHUB_STEP_SUMMARY\"").unwrap_or(line);
    let mut line = line.replace("$GITHUB_REPOSITORY", "organization/repository");
    for (name, value) in [
        ("RECIPE", RECIPE),
        ("REGION", "eu-central-1"),
        ("VERSION", "1.35.8"),
        ("CHANNEL", "stable"),
        ("ROLLOUT", "stop"),
    ] {
        assert!(!line.contains(&format!("${name}\"")) || environment[name].is_string(), "{line}");
        line = line.replace(&format!("${name}\""), &format!("{value}\""));
        line = line.replace(&format!("${name}/"), &format!("{value}/"));
    }
    assert!(
        !line.contains(['\n', ';', '|', '&', '>', '<', '`', '$', '\'', '(', '\\']),
        "{line} is more than one command"
    );
    line.split(' ').map(|word| word.trim_matches('"').to_owned()).collect()
}

#[test]
fn each_job_has_existing_recipes_and_only_the_rights_that_it_uses() {
    let root = folder().join("../../..");
    let mut builds = BTreeSet::new();
    for workflow in Workflow::all() {
        assert_eq!(workflow.text["permissions"], json!({}), "{}", workflow.path.display());
        for (name, job) in workflow.jobs() {
            let of_matrix = job["strategy"]["matrix"]["recipe"].as_array().into_iter().flatten();
            let of_matrix = of_matrix.map(|recipe| recipe.as_str().unwrap());
            let listed = workflow.steps(name).iter();
            let listed = listed.filter_map(|step| step["env"]["RECIPES"].as_str());
            let recipes: Vec<&str> =
                of_matrix.chain(listed.flat_map(|recipes| recipes.split(' '))).collect();
            for recipe in &recipes {
                assert!(root.join(format!("recipes/{recipe}.lock")).is_file(), "{recipe}");
            }
            builds.extend((!recipes.is_empty()).then_some(recipes.join(" ")));
            let calls_aws = job.to_string().contains("configure-aws-credentials");
            let writes = job.to_string().contains("github_token");
            assert_eq!(job["permissions"]["id-token"] == "write", calls_aws, "{name}");
            assert_eq!(job["permissions"]["contents"] == "write", writes, "{name}");
            assert_eq!(
                job["environment"] == "release",
                calls_aws,
                "{name}: a person must approve signatures"
            );
        }
    }
    assert_eq!(builds.len(), 1, "workflows build different recipes: {builds:?}");
}

/// GitHub isolates the cache of a pull request from other branches, but all branches can read that
/// of `main`.
#[test]
fn releases_use_no_cache_and_pull_requests_restore_that_of_main() {
    for name in ["release", "promote"] {
        assert!(!Workflow::named(name).text.to_string().contains("actions/cache"), "{name}");
    }
    let [main, pull_request] = ["main", "pull-request"].map(Workflow::named);
    assert_eq!(pull_request.text["on"], "pull_request");
    let (_, cache) = main.action("build", "actions/cache@");
    assert_eq!(pull_request.action("build", "actions/cache@").1, cache);
    let [key, prefix] = ["key", "restore-keys"].map(|name| cache[name].as_str().unwrap());
    assert_eq!(key.strip_prefix(prefix), Some("${{ github.sha }}"));
}

#[test]
fn main_fills_a_shared_cache_pull_requests_read_it_and_releases_do_not() {
    for name in ["release", "promote"] {
        assert!(!Workflow::named(name).text.to_string().contains("OSBUILD_REMOTE"), "{name}");
    }
    for (name, mode) in [("main", "cache-write"), ("pull-request", "cache")] {
        let environment = &Workflow::named(name).text["jobs"]["build"]["env"];
        assert_eq!(environment["OSBUILD_REMOTE"], "${{ vars.OSBUILD_REMOTE }}", "{name}");
        assert_eq!(environment["OSBUILD_REMOTE_MODE"], mode, "{name}");
    }
}

#[test]
fn releases_run_one_at_a_time_in_the_listed_order() {
    let [release, promote] = ["release", "promote"].map(Workflow::named);
    let strategy = |job: &str| &release.text["jobs"][job]["strategy"];
    let listed = "${{ fromJSON(needs.list.outputs.left) }}";
    assert_eq!(strategy("build")["matrix"]["include"], listed);
    assert_eq!(strategy("release")["matrix"]["include"], listed);
    assert_eq!(strategy("release")["max-parallel"], 1);
    assert_eq!(strategy("release")["fail-fast"], true);
    assert_eq!(release.text["concurrency"], promote.text["concurrency"]);
    let last = &promote.text["jobs"]["release"];
    assert_eq!((&last["needs"], &last["if"]), (&json!("promote"), &json!("${{ !cancelled() }}")));
    assert!(promote.commands("release")[0].starts_with("gh workflow run release.yml "));
}

/// `gh api --paginate PATH --jq FILTER`, whose responses are files.
const GH: &str = r#"#!/bin/bash
set -euo pipefail
[ "$1 $2 $4 $GH_TOKEN" = "api --paginate --jq a-token" ]
jq -r "$5" "RESPONSES/$(basename "$3").json"
"#;

/// Runs the command that lists the tags to release, for these tags and released tags.
fn left(tags: &[&str], released: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let refs: Vec<Value> =
        tags.iter().map(|tag| json!({ "ref": format!("refs/tags/{tag}") })).collect();
    let release = |tag: &&str| {
        let assets = [json!({ "name": "small_1.35.8_provenance.dsse.json" })];
        json!({ "tag_name": tag, "assets": assets })
    };
    let releases: Vec<Value> = released.iter().map(release).collect();
    fs::write(folder.path().join("v.json"), Value::from(refs).to_string()).unwrap();
    fs::write(folder.path().join("releases.json"), Value::from(releases).to_string()).unwrap();
    let gh = folder.path().join("gh");
    fs::write(&gh, GH.replace("RESPONSES", &folder.path().display().to_string())).unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = folder.path().join("output");
    let release = Workflow::named("release");
    let mut command = Command::new("bash");
    command.args(["-euc", release.commands("list")[0]]).env_clear().env("PATH", path);
    command.env("GH_TOKEN", "a-token").env("RECIPES", RECIPE).env("GITHUB_OUTPUT", &output);
    command.env("GITHUB_REPOSITORY", "organization/repository");
    done(&Ran::of(&mut command));
    let output = fs::read_to_string(output).unwrap();
    let left: Value = serde_json::from_str(output.strip_prefix("left=").unwrap()).unwrap();
    let entries = left.as_array().unwrap().iter();
    let names = entries.map(|entry| format!("{} {}", entry["tag"], entry["recipe"]));
    names.collect::<Vec<_>>().join(", ").replace('"', "")
}

#[test]
fn unreleased_tags_are_listed_the_lowest_version_first() {
    assert_eq!(left(&["v1"], &[]), "v1 small");
    let tags = ["v1", "v1.10", "v1.9", "v2", "v;x"];
    assert_eq!(left(&tags, &["v1"]), "v1.9 small, v1.10 small, v2 small");
    assert_eq!(left(&tags, &["v1", "v1.9", "v1.10"]), "v2 small");
    assert_eq!(left(&tags, &["v1", "v1.9", "v1.10", "v2"]), "");
}

/// A project in git whose keys are in KMS, as `builder/docs/release-pipeline.md` describes.
fn project(cloud: &Cloud) -> Scratch {
    let mut scratch = open_with_layers();
    scratch.set("AWS_ENDPOINT_URL", &cloud.address);
    scratch.set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
    scratch.set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    done(&scratch.osbuild(&["keys", "new", "prod", "--token", ARN]));
    done(&scratch.osbuild(&["keys", "rotate", "prod", "--role", "release", "--token", P256_ARN]));
    fs::copy(folder().join("../../../.gitignore"), scratch.project().join(".gitignore")).unwrap();
    let git = |words: &[&str]| {
        let git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"];
        tool(&scratch.project(), "git", &[&git[..], words].concat())
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "x"]);
    assert!(!git(&["ls-files"]).contains(".key"), "a private key is in git");
    scratch
}

/// A GitHub runner: a clone of the project, and its own store.
struct Machine<'a> {
    cloud: &'a Cloud,
    folder: PathBuf,
}

impl<'a> Machine<'a> {
    fn new(cloud: &'a Cloud, scratch: &Scratch, name: &str) -> Self {
        let machine = Machine { cloud, folder: scratch.path(name) };
        fs::create_dir(&machine.folder).unwrap();
        let [from, to] = [scratch.project(), machine.project()];
        let clone = ["git", "clone", "--quiet", from.to_str().unwrap(), to.to_str().unwrap()];
        tool(&machine.folder, "git", &clone);
        fs::create_dir(machine.project().join("updates")).unwrap();
        machine
    }

    fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    /// Runs the commands of a job in `release.yml` up to the first that fails.
    fn run(&self, job: &str) -> Vec<Ran> {
        let release = Workflow::named("release");
        let mut ran = Vec::new();
        for command in release.commands(job) {
            ran.push(self.command(command));
            if ran.last().unwrap().code != Some(0) {
                break;
            }
        }
        ran
    }

    fn command(&self, line: &str) -> Ran {
        let cargo = "cargo() { [ \"$1\" = osbuild ] && shift && \"$OSBUILD\" \"$@\"; }\n";
        let mut bash = Command::new("bash");
        bash.args(["-euc", &format!("{cargo}{line}")]).current_dir(self.project()).env_clear();
        bash.env("OSBUILD", env!("CARGO_BIN_EXE_osbuild"));
        bash.env("PATH", std::env::var_os("PATH").unwrap());
        bash.env("HOME", self.folder.join("home")).env("XDG_CACHE_HOME", self.folder.join("cache"));
        bash.env("RECIPE", RECIPE).env("REGION", "eu-central-1");
        bash.env("GITHUB_REPOSITORY", "organization/repository");
        bash.env("AWS_ENDPOINT_URL", &self.cloud.address);
        bash.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        Ran::of(&mut bash)
    }

    /// Copies the build of the other machine, like the upload in `release.yml`.
    fn download(&self, from: &Machine) {
        let first = self.project().join("first");
        copy(&from.project().join("sources"), &first.join("sources"));
        let image = Path::new("out").join(RECIPE).join("image.raw");
        fs::create_dir_all(first.join(&image).parent().unwrap()).unwrap();
        fs::copy(from.project().join(&image), first.join(&image)).unwrap();
    }
}

/// Runs the two jobs of a release on machines that share only the upload. The second machine has no
/// store and does not use registries.
#[test]
fn a_release_is_built_twice_compared_signed_and_published() {
    let release = Workflow::named("release");
    let (_, upload) = release.action("build", "actions/upload-artifact@");
    assert_eq!(upload["path"], "sources\nout/${{ matrix.recipe }}/image.raw\n");
    let (_, download) = release.action("release", "actions/download-artifact@");
    assert_eq!((&download["path"], &download["name"]), (&json!("first"), &upload["name"]));
    let (_, pages) = release.action("release", "peaceiris/actions-gh-pages@");
    assert_eq!(pages["publish_dir"], "updates");
    let (_, attached) = release.action("release", "softprops/action-gh-release@");
    assert_eq!(attached["files"], "out/${{ matrix.recipe }}/released/*");

    let cloud = Cloud::start();
    let scratch = project(&cloud);
    let [first, second] = ["first", "second"].map(|name| Machine::new(&cloud, &scratch, name));
    copy(&scratch.path("cache"), &first.folder.join("cache"));
    first.run("build").iter().for_each(done);
    second.download(&first);
    let ran = second.run("release");
    ran.iter().for_each(done);
    cloud.assert_no_mistakes();
    assert_eq!((cloud.calls("RegisterImage").len(), ran.len()), (1, 4));
    assert!(ran[0].stdout.contains("byte for byte"), "{}", ran[0].stdout);
    let version = scratch.plan().product.version;
    let released = second.project().join("out").join(RECIPE).join("released");
    for end in ["sbom.spdx.json", "provenance.dsse.json", "recipe.lock", "sources.txt"] {
        assert!(released.join(format!("{RECIPE}_{version}_{end}")).is_file(), "{end}");
    }
    let provenance = released.join(format!("{RECIPE}_{version}_provenance.dsse.json"));
    assert_eq!(commit(&provenance)["annotations"]["dirty"], false);
}

/// The commit in a provenance.
fn commit(provenance: &Path) -> Value {
    let envelope: Value = serde_json::from_slice(&fs::read(provenance).unwrap()).unwrap();
    let payload = STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
    let mut statement: Value = serde_json::from_slice(&payload).unwrap();
    let inputs = &mut statement["predicate"]["buildDefinition"]["resolvedDependencies"];
    let mut inputs = inputs.as_array_mut().unwrap().iter_mut();
    inputs.find(|one| one["name"] == "project").unwrap().take()
}

#[test]
fn an_image_that_differs_is_neither_signed_nor_published() {
    let release = Workflow::named("release");
    let compares = |step: &Value| {
        step["run"].as_str().is_some_and(|line| line.contains("--rebuild --sources first/sources"))
    };
    let comparison = release.steps("release").iter().position(compares).unwrap();
    assert!(comparison < release.action("release", "aws-actions/configure-aws-credentials@").0);

    let cloud = Cloud::start();
    let scratch = project(&cloud);
    let [first, second] = ["first", "second"].map(|name| Machine::new(&cloud, &scratch, name));
    copy(&scratch.path("cache"), &first.folder.join("cache"));
    first.run("build").iter().for_each(done);
    second.download(&first);
    let image = second.project().join("first/out").join(RECIPE).join("image.raw");
    let mut bytes = fs::read(&image).unwrap();
    // A byte outside slotboot and the UKI: it is before the backup table.
    let place = bytes.len() - (33 << 9) - (1 << 20);
    bytes[place] ^= 1;
    fs::write(&image, bytes).unwrap();
    let before = cloud.names().len();
    let ran = second.run("release");
    assert_eq!((ran.len(), ran[0].code), (1, Some(4)), "{}", ran[0].stderr);
    assert!(
        ran[0].stderr.contains(&format!("it differs from the build of `{RECIPE}`")),
        "{}",
        ran[0].stderr
    );
    assert_eq!(cloud.names().len(), before);
}
