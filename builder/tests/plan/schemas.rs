//! The schemas, checked by an independent validator: Python's `jsonschema` (Debian:
//! python3-jsonschema).

use crate::{changed, project, shipped};
use osbuild::plan::{self, FileKind, Project, schema};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator
for schema, document in json.load(sys.stdin):
    Draft202012Validator.check_schema(schema)
    print('yes' if Draft202012Validator(schema).is_valid(document) else 'no')
";

/// The validator's result for each file.
fn valid(files: &[(FileKind, &str)]) -> Vec<bool> {
    let pairs: Vec<(Value, &str)> =
        files.iter().map(|(kind, text)| (schema(*kind), *text)).collect();
    valid_by(&pairs)
}

/// The validator's result for each schema and TOML file.
pub fn valid_by(pairs: &[(Value, &str)]) -> Vec<bool> {
    let pairs: Vec<Value> =
        pairs.iter().map(|(schema, text)| json!([schema, document(text)])).collect();
    let python = Command::new("python3")
        .args(["-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut python = python.expect("python3 is installed");
    python.stdin.take().unwrap().write_all(json!(pairs).to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "python3 and its jsonschema are installed");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line == "yes").collect()
}

/// TOML as an editor's validator sees it: dates are strings.
fn document(text: &str) -> Value {
    fn convert(value: &toml::Value) -> Value {
        match value {
            toml::Value::Datetime(date) => json!(date.to_string()),
            toml::Value::Array(list) => list.iter().map(convert).collect(),
            toml::Value::Table(table) => {
                table.iter().map(|(key, value)| (key.clone(), convert(value))).collect()
            }
            plain => json!(plain),
        }
    }
    convert(&toml::Value::Table(text.parse().unwrap()))
}

fn kind(path: &str) -> Option<FileKind> {
    let toml = path.strip_suffix(".toml")?;
    match toml.rsplit_once('/')? {
        ("recipes", _) => Some(FileKind::Recipe),
        ("boards", _) => Some(FileKind::Board),
        (_, "component") => Some(FileKind::Component),
        (_, "releases") => Some(FileKind::Releases),
        _ => None,
    }
}

fn files(project: &Project) -> Vec<(&String, FileKind, &str)> {
    project
        .files
        .iter()
        .filter_map(|(path, bytes)| Some((path, kind(path)?, std::str::from_utf8(bytes).unwrap())))
        .collect()
}

#[test]
fn every_shipped_file_is_valid() {
    for project in [shipped(), project()] {
        let files = files(&project);
        let pairs: Vec<(FileKind, &str)> =
            files.iter().map(|(_, kind, text)| (*kind, *text)).collect();
        for ((path, ..), valid) in files.iter().zip(valid(&pairs)) {
            assert!(valid, "{path}");
        }
    }
}

#[test]
fn the_schema_refuses_what_the_strict_reader_refuses() {
    const SMALL: &str = "recipes/small.toml";
    let changes = [
        (SMALL, "[kernel.options]", "[kernal.options]"),
        (SMALL, "0o600", "0o7777"),
        (SMALL, "board = \"bench\"", "board = 7"),
        (SMALL, "sha256:00", "sha256:0g"),
        (SMALL, "manifest = ", "manifst = "),
        (SMALL, "\"/etc/hello\"", "\"etc/hello\""),
        (SMALL, "[\"1.35\", ", "[\"1.35.1\", "),
        ("recipes/base.toml", "[kernel]", "curl = { component = \"curl\" }\n[kernel]"),
        ("boards/bench.toml", "= 512", "= 1024"),
        ("boards/bench.toml", "architecture = \"arm64\"", "architecture = \"riscv64\""),
        ("components/runc/component.toml", "module = ", "modul = "),
        ("components/kubelet/releases.toml", "newest = \"1.35.8\"", "newest = \"1.35\""),
    ];
    let pairs: Vec<(FileKind, String)> = changes
        .iter()
        .map(|change| {
            let project = changed(&[*change]);
            assert!(!plan::check(&project, crate::TODAY).0.is_empty(), "{change:?}");
            (kind(change.0).unwrap(), String::from_utf8(project.files[change.0].clone()).unwrap())
        })
        .collect();
    let pairs: Vec<(FileKind, &str)> =
        pairs.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
    for (change, valid) in changes.iter().zip(valid(&pairs)) {
        assert!(!valid, "{change:?}");
    }
}
