//! The plan from outside: the shipped files are complete, and mistakes are reported well.

mod apparmor;
mod docs;
mod kernel;
mod kspp;
mod locks;
mod node_document;
mod node_settings;
mod packages;
mod payload;
mod printed;
mod random;
mod schemas;
mod shipped;
mod skew;
mod writable;
mod wrong;

use osbuild::checkout::Checkout;
use osbuild::error::Error;
use osbuild::plan::{self, Date, Plan, Project, Strictness};
use std::fs;
use std::path::{Path, PathBuf};

/// The current date in these tests.
const TODAY: Date = Date { year: 2026, month: 11, day: 21 };

/// This checkout.
fn shipped() -> Project {
    Checkout::around(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap().read().unwrap()
}

/// A small project that is independent of the shipped files.
fn project() -> Project {
    Checkout { root: folder().join("project") }.read().unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan")
}

/// The small project after changes: each is a file, a text in it, and the text that replaces it.
fn changed(changes: &[(&str, &str, &str)]) -> Project {
    let mut project = project();
    for (path, before, after) in changes {
        let bytes = project.files.get_mut(*path).unwrap_or_else(|| panic!("no {path}"));
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(before), "{path} has no {before:?}");
        *bytes = text.replacen(before, after, 1).into_bytes();
    }
    project
}

fn resolve(project: &Project) -> Plan {
    plan::resolve(project, "small", TODAY, Strictness::Lock)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(project: &Project) -> Error {
    plan::resolve(project, "small", TODAY, Strictness::Build).map(|plan| plan.print()).unwrap_err()
}

/// Compares a text with `expected/<name>`. `BLESS=1` writes that file instead, to be reviewed in
/// the diff.
#[track_caller]
fn expect(name: &str, text: &str) {
    let path = folder().join("expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{} has:\n{expected}\nand this is:\n{text}", path.display());
}
