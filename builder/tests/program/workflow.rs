//! A workflow of GitHub Actions, and machines that run its jobs as GitHub's do: each in a clone of
//! its own, with nothing of the one before but what was handed on.

use crate::builds::done;
use crate::keys::tool;
use crate::scratch::{Ran, copy};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the pipelines.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("ci/pipelines/github")
}

/// The file in the folder of GitHub with the outputs of jobs.
const OUTPUT: &str = "output";

/// A workflow.
pub struct Workflow {
    /// Its file.
    pub path: PathBuf,
    /// What is in it.
    pub text: Value,
}

impl Workflow {
    /// The one in this file.
    pub fn named(name: &str) -> Self {
        let path = folder().join(format!("{name}.yml"));
        let text = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        Workflow { path, text }
    }

    /// All there are.
    pub fn all() -> Vec<Self> {
        let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| Workflow::named(path.file_stem().unwrap().to_str().unwrap())).collect()
    }

    /// Its jobs with their names.
    pub fn jobs(&self) -> Vec<(&String, &Value)> {
        self.text["jobs"].as_object().unwrap().iter().collect()
    }

    /// The steps of all jobs.
    pub fn steps(&self) -> Vec<&Value> {
        self.jobs().into_iter().flat_map(|(_, job)| job["steps"].as_array().unwrap()).collect()
    }
}

/// GitHub: a repository, what jobs hand on, and what they leave.
#[derive(Clone)]
pub struct Host {
    /// The repository, with the branches `main` and `updates`.
    pub origin: PathBuf,
    /// The folder of everything.
    pub folder: PathBuf,
    /// What expressions stand for.
    pub values: BTreeMap<&'static str, String>,
    /// The environment of every machine.
    pub environment: Vec<(String, String)>,
    /// What a job has once it has told AWS who it is.
    pub credentials: Vec<(String, String)>,
}

impl Host {
    /// The file with the reports for pull requests.
    pub fn report(&self) -> PathBuf {
        self.folder.join("report.md")
    }

    /// The folder with the files that releases of GitHub's have, in a folder a tag.
    pub fn attached(&self) -> PathBuf {
        self.folder.join("attached")
    }

    /// The same, where some expressions stand for something else.
    pub fn with<const N: usize>(&self, values: [(&'static str, &str); N]) -> Host {
        let mut host = self.clone();
        host.values.extend(values.map(|(name, value)| (name, value.to_owned())));
        host
    }

    /// The entries of a matrix that a job gives as its output of this name.
    pub fn list(
        &self,
        workflow: &Workflow,
        job: &str,
        name: &str,
    ) -> Vec<BTreeMap<String, String>> {
        all_done(&self.run(workflow, job, None));
        let output = fs::read_to_string(self.folder.join(OUTPUT)).unwrap();
        let line = output
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .next_back()
            .unwrap();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Runs a job on a machine of its own, whose store is `store` if it has one. Gives what its
    /// steps of ours said; those behind one that failed are not run.
    pub fn run(&self, workflow: &Workflow, job: &str, store: Option<&Path>) -> Vec<Ran> {
        let number = fs::read_dir(&self.folder).unwrap().count();
        let machine = Machine { host: self, folder: self.folder.join(format!("machine-{number}")) };
        fs::create_dir_all(&machine.folder).unwrap();
        if let Some(store) = store {
            copy(store, &machine.folder.join("cache"));
        }
        let job = &workflow.text["jobs"][job];
        let mut environment = self.environment.clone();
        environment.extend(self.variables(&job["env"]));
        let (mut ran, mut to_keep) = (Vec::new(), Vec::new());
        for step in job["steps"].as_array().unwrap() {
            match (
                step["uses"].as_str().and_then(|action| action.split('@').next()),
                step["run"].as_str(),
            ) {
                (Some("actions/cache"), _) => to_keep.extend(machine.restore(&step["with"])),
                (Some(action), _) => environment.extend(machine.action(action, &step["with"])),
                (None, line) => {
                    let own = self.variables(&step["env"]);
                    ran.push(machine.line(line.unwrap(), &[&environment[..], &own].concat()));
                }
            }
            if ran.last().is_some_and(|ran| ran.code != Some(0)) {
                return ran;
            }
        }
        to_keep.iter().for_each(|folder| copy_as_it_is(&machine.store(), folder));
        ran
    }

    /// The variables of a job or a step. Those that the host has a value for by their own name have
    /// that.
    fn variables(&self, named: &Value) -> Vec<(String, String)> {
        let named = named.as_object().into_iter().flatten();
        let value =
            |name: &str, value| self.values.get(name).cloned().unwrap_or_else(|| self.text(value));
        named.map(|(name, text)| (name.clone(), value(name, text))).collect()
    }

    /// The folder of the caches of one branch or pull request. A job reads its own and those of
    /// `main`.
    fn caches(&self, scope: &str) -> PathBuf {
        self.folder.join("caches").join(scope.replace('/', "_"))
    }

    /// A text with its expressions replaced.
    fn text(&self, value: &Value) -> String {
        let text = value.as_str().unwrap_or_else(|| panic!("{value} is no text"));
        let mut parts = text.split("${{");
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |all, part| {
            let (expression, rest) = part.split_once("}}").unwrap();
            let name = expression.trim();
            all + self.values.get(name).unwrap_or_else(|| panic!("nobody knows `{name}`")) + rest
        })
    }
}

/// A machine that runs one job.
struct Machine<'h> {
    host: &'h Host,
    folder: PathBuf,
}

impl Machine<'_> {
    fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    fn store(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// Restores a cache as GitHub does: by its key, else the newest whose key begins so; of the
    /// branch of the job, else of `main`. Gives the folder in which to keep what the job leaves, if
    /// the key is new.
    fn restore(&self, with: &Value) -> Option<PathBuf> {
        let (key, prefix) = (self.host.text(&with["key"]), self.host.text(&with["restore-keys"]));
        let scopes = [self.host.values["github.ref"].as_str(), "refs/heads/main"]
            .map(|scope| self.host.caches(scope));
        let newest = |scope: &PathBuf| {
            let entries = fs::read_dir(scope).into_iter().flatten().flatten();
            let begins = entries.filter(|entry| {
                entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix.trim()))
            });
            begins
                .max_by_key(|entry| entry.metadata().unwrap().modified().unwrap())
                .map(|entry| entry.path())
        };
        let exact = scopes.iter().map(|scope| scope.join(&key)).find(|path| path.is_dir());
        if let Some(found) = exact.clone().or_else(|| scopes.iter().find_map(newest)) {
            copy_as_it_is(&found, &self.store());
        }
        exact.is_none().then(|| scopes[0].join(&key))
    }

    /// Does what an action would do, and gives what the environment has more from then on.
    fn action(&self, name: &str, with: &Value) -> Vec<(String, String)> {
        let word = |key: &str| self.host.text(&with[key]);
        match name {
            "actions/checkout" => self.check_out(with),
            "actions/upload-artifact" => self.hand_on(&word("name"), &word("path")),
            "actions/download-artifact" => {
                copy(
                    &self.host.folder.join("handed-on").join(word("name")),
                    &self.project().join(word("path")),
                );
            }
            "aws-actions/configure-aws-credentials" => {
                assert!(word("role-to-assume").starts_with("arn:aws:iam::"));
                return self.host.credentials.clone();
            }
            "peaceiris/actions-gh-pages" => {
                self.publish(&word("publish_branch"), &self.project().join(word("publish_dir")))
            }
            "softprops/action-gh-release" => self.attach(&word("tag_name"), &word("files")),
            "actions/setup-go" => {}
            other => panic!("nobody knows what `{other}` does"),
        }
        Vec::new()
    }

    fn check_out(&self, with: &Value) {
        let (branch, path) =
            (with.get("ref").map(|name| self.host.text(name)), with["path"].as_str());
        let branch = branch
            .as_deref()
            .map_or("main", |name| name.strip_prefix("refs/tags/").unwrap_or(name));
        assert_eq!(with["persist-credentials"], false);
        let to =
            path.map_or(self.project(), |path| self.project().join(path)).display().to_string();
        let origin = self.host.origin.display().to_string();
        tool(&self.folder, "git", &["git", "clone", "--quiet", "--branch", branch, &origin, &to]);
    }

    fn hand_on(&self, name: &str, paths: &str) {
        let to = self.host.folder.join("handed-on").join(name);
        for path in paths.lines() {
            let (from, to) = (self.project().join(path), to.join(path));
            match from.is_dir() {
                true => copy(&from, &to),
                false => {
                    fs::create_dir_all(to.parent().unwrap()).unwrap();
                    fs::copy(from, to).map(drop).unwrap();
                }
            }
        }
    }

    /// Makes a folder all that a branch has.
    fn publish(&self, branch: &str, folder: &Path) {
        fs::remove_dir_all(folder.join(".git")).unwrap();
        let git = |words: &[&str]| {
            tool(
                folder,
                "git",
                &[&["git", "-c", "user.name=x", "-c", "user.email=x@example.com"], words].concat(),
            )
        };
        git(&["init", "--quiet"]);
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "-m", "x"]);
        git(&[
            "push",
            "--quiet",
            "--force",
            &self.host.origin.display().to_string(),
            &format!("HEAD:{branch}"),
        ]);
    }

    fn attach(&self, tag: &str, files: &str) {
        let from = self.project().join(files.strip_suffix("/*").unwrap());
        copy(&from, &self.host.attached().join(tag));
    }

    /// Runs a step of ours in the shell, with the `osbuild` of these tests.
    fn line(&self, line: &str, environment: &[(String, String)]) -> Ran {
        let cargo = "cargo() { [ \"$1\" = osbuild ] && shift && \"$OSBUILD\" \"$@\"; }\n";
        let mut command = Command::new("bash");
        let place =
            Some(self.project()).filter(|project| project.is_dir()).unwrap_or(self.folder.clone());
        command.args(["-euc", &format!("{cargo}{line}")]).current_dir(place).env_clear();
        command
            .env("OSBUILD", env!("CARGO_BIN_EXE_osbuild"))
            .env("GITHUB_STEP_SUMMARY", self.host.report());
        command.env("GITHUB_OUTPUT", self.host.folder.join(OUTPUT));
        command.env("HOME", self.folder.join("home")).env("XDG_CACHE_HOME", self.store());
        Ran::of(command.envs(environment.iter().map(|(name, value)| (name, value))))
    }
}

/// Copies a folder with links and modes, as an archive of it would.
fn copy_as_it_is(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    tool(from, "coreutils", &["cp", "--archive", ".", to.to_str().unwrap()]);
}

/// Every one of them has ended well.
#[track_caller]
pub fn all_done(ran: &[Ran]) {
    ran.iter().for_each(done);
}
