//! Downloads Go modules, and finds lines and functions in their source.

use crate::table::Site;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a module, at the version that this version of Kubernetes is built with. Downloads
/// it if necessary.
pub fn module(path: &str, kubernetes: &str) -> PathBuf {
    let version = match path {
        "k8s.io/kubernetes" => kubernetes.to_owned(),
        // Kubernetes publishes its own libraries as v0.MINOR.PATCH.
        _ if path.starts_with("k8s.io/") => kubernetes.replacen("v1.", "v0.", 1),
        _ => required(path, &module("k8s.io/kubernetes", kubernetes)),
    };
    download(path, &version)
}

/// The version of `path` in the `go.mod` below `folder`.
fn required(path: &str, folder: &Path) -> String {
    let go_mod = fs::read_to_string(folder.join("go.mod")).unwrap();
    let version = go_mod
        .lines()
        .find_map(|line| line.trim().strip_prefix(path)?.strip_prefix(' ')?.split(' ').next());
    version.unwrap_or_else(|| panic!("{path} is not in go.mod")).to_owned()
}

fn download(path: &str, version: &str) -> PathBuf {
    let module = format!("{path}@{version}");
    let output =
        Command::new("go").args(["mod", "download", "-json", &module]).output().expect("`go` runs");
    assert!(
        output.status.success(),
        "go mod download {module}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let download: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    PathBuf::from(download["Dir"].as_str().unwrap())
}

/// All lines below `folders` that `matches` accepts, except comments, tests, and files for other
/// systems.
pub fn sites(
    module: &str,
    root: &Path,
    folders: &[String],
    matches: impl Fn(&str) -> bool,
) -> Vec<Site> {
    let mut files = Vec::new();
    for folder in folders {
        collect(&root.join(folder), &mut files);
    }
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let file = file.strip_prefix(root).unwrap().to_str().unwrap();
        for line in text.lines().map(str::trim) {
            if !line.starts_with("//") && !line.starts_with("func ") && matches(line) {
                found.push(Site { module: module.into(), file: file.into(), source: line.into() });
            }
        }
    }
    found
}

/// Panics with the lines that are in only one of the two lists. A line that occurs several times
/// must be listed as often.
pub fn same_sites(mut found: Vec<Site>, mut known: Vec<Site>) {
    found.sort();
    known.sort();
    let new: Vec<&Site> = found.iter().filter(|site| !known.contains(site)).collect();
    let gone: Vec<&Site> = known.iter().filter(|site| !found.contains(site)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "not in the table: {new:#?}\nno longer in the source: {gone:#?}"
    );
    assert_eq!(found.len(), known.len(), "a repeated line must be listed as often");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "testing" && name != "testdata" {
                collect(&path, files);
            }
        } else if name.ends_with(".go") && !is_foreign(name) {
            files.push(path);
        }
    }
}

fn is_foreign(name: &str) -> bool {
    ["_test.go", "_windows.go", "_unsupported.go", "_others.go", "_darwin.go"]
        .iter()
        .any(|end| name.ends_with(end))
        || name.starts_with("fake_")
}

/// The text of a function, without comments and indentation. A method is found by its name only, so
/// the file must have only one with that name.
pub fn function(file: &Path, name: &str) -> String {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let is_start = |line: &str| {
        let after = line
            .strip_prefix("func ")
            .map(|rest| rest.split_once(") ").filter(|_| rest.starts_with('(')));
        match after {
            Some(Some((_, method))) => method.starts_with(&format!("{name}(")),
            Some(None) => line.starts_with(&format!("func {name}(")),
            None => false,
        }
    };
    let mut lines = text.lines().skip_while(|line| !is_start(line));
    let mut body: Vec<&str> =
        lines.by_ref().take_while(|line| *line != "}").map(str::trim).collect();
    body.retain(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(!body.is_empty(), "{} has no function `{name}`", file.display());
    assert!(!lines.any(is_start), "{} has two functions `{name}`", file.display());
    body.join("\n")
}

/// The first 16 hexadecimal digits of the SHA-256 of a function's text.
pub fn digest(function: &str) -> String {
    let mut hex: String =
        Sha256::digest(function).iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(16);
    hex
}
