//! What has to be installed on the machine that builds, runs or checks: a table of tools, each with
//! its reason and its remedy.
//!
//! What goes into an image never depends on these: the compilers of the build come from the lock.

mod install;
mod sandbox;
mod tool;

pub use install::{Consent, set_up};
pub use tool::{Found, Lack, Remedy, Tool};

use crate::error::{Error, Problem, Result};
use crate::plan::Architecture;
use crate::report::Report;
use crate::ship::vm::machine::{self, Firmware, SecureBoot};

/// The oldest Go that fetches the toolchain that a module asks for.
const GO: (u32, u32) = (1, 21);

/// What `cargo osbuild build` needs when it has all sources.
pub fn for_steps() -> Vec<Tool> {
    let other =
        |name: &str, why: &str, found, words: &str| Tool { found, ..Tool::other(name, why, words) };
    vec![
        other(
            "amd64",
            "is what the compilers of a build run on",
            Found::Processor(Architecture::Amd64),
            "build on an amd64 machine; `check`, `plan`, `inspect` and `diff` work here",
        ),
        Tool::package("bwrap", "bubblewrap", "runs each step of the build in a sandbox"),
        other(
            "sandbox",
            "is what bubblewrap makes for each step",
            Found::Sandbox,
            "see builder/docs/hosts.md",
        ),
    ]
}

/// What fetches and pins sources: each ecosystem's own client.
pub fn for_sources() -> Vec<Tool> {
    vec![
        Tool::package(
            "apt-get",
            "apt",
            "reads Debian's archive: the kernel's source, the sandbox, the UEFI stub",
        ),
        Tool::other(
            "cargo",
            "fetches the node's crates",
            "install Rust with rustup (https://rustup.rs)",
        ),
        Tool::other(
            "rustup",
            "fetches the Rust toolchain that the lock names",
            "install Rust with rustup (https://rustup.rs)",
        ),
        Tool {
            found: Found::Go { least: GO },
            ..Tool::other(
                "go",
                "fetches Go modules and the Go toolchain that the lock names",
                "install Go (https://go.dev/dl)",
            )
        },
    ]
}

/// What `osbuild run` needs besides, for nodes of this architecture. The firmware is left out where
/// the user brings his own.
pub fn for_run(architecture: Architecture, firmware: bool) -> Vec<Tool> {
    let mut tools = vec![
        Tool::package(
            machine::program(architecture),
            machine::package(architecture),
            "is the machine that the node runs on",
        ),
        Tool::package("qemu-img", "qemu-utils", "makes a disk that is thrown away over the image"),
    ];
    if firmware {
        let places = [SecureBoot::Off, SecureBoot::Setup]
            .iter()
            .flat_map(|secure_boot| Firmware::known(architecture, secure_boot))
            .map(|firmware| firmware.code)
            .collect();
        tools.push(Tool {
            name: format!("UEFI firmware for {architecture}"),
            why: "starts the node from its disk".to_owned(),
            found: Found::AnyFile(places),
            remedy: Remedy::Package(Firmware::package(architecture).to_owned()),
        });
    }
    tools
}

/// Prints every tool as data, there or missing, and installs what is missing if `fix` says so.
/// It is an error when something is missing in the end.
pub fn doctor(report: &Report, tools: &[Tool], fix: Option<Consent>, json: bool) -> Result<()> {
    if let Some(consent) = fix {
        set_up(report, tools, consent)?;
    }
    let lacks: Vec<Option<Lack>> = tools.iter().map(Tool::lack).collect();
    if json {
        let rows = tools.iter().zip(&lacks).map(|(tool, lack)| tool.row(lack.as_ref()));
        report.data(serde_json::Value::from_iter(rows).to_string());
    } else {
        for (tool, lack) in tools.iter().zip(&lacks) {
            report.data(line(tool, lack.as_ref()));
        }
    }
    let count = lacks.iter().flatten().count();
    if count == 0 { Ok(()) } else { Err(lacking(count)) }
}

/// A row of `doctor`: a thing that is there but does not work says why, in a line of its own.
fn line(tool: &Tool, lack: Option<&Lack>) -> String {
    let row = |word: &str| format!("{word:8} {:28} {}", tool.name, tool.why);
    match lack {
        None => row("ok"),
        Some(Lack { said, cause: Some(cause), remedy }) => {
            format!("{}\n  {said}\n  caused by: {cause}\n  hint: {remedy}", row("fails"))
        }
        Some(Lack { remedy, .. }) => format!("{} ({remedy})", row("missing")),
    }
}

fn lacking(count: usize) -> Error {
    let things = if count == 1 { "thing is missing or does" } else { "things are missing or do" };
    Error::build(format!("{count} {things} not work on this machine"))
        .hint("`cargo osbuild doctor --fix` installs what Debian and rustup have")
}

/// The error that names everything that is missing or does not work, with its reason and its
/// remedy.
fn missing(lacks: impl IntoIterator<Item = Lack>) -> Error {
    let problem = |Lack { said, cause, remedy }| {
        cause.into_iter().fold(Problem::new(said), Problem::cause).hint(remedy)
    };
    Error::many(crate::error::Kind::Build, lacks.into_iter().map(problem).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let tools = [
            Tool::package("no-such-tool", "no-such-package", "is wanted"),
            Tool::other("no-other", "is too", "find it"),
        ];
        let error = missing(tools.iter().filter_map(Tool::lack));
        assert_eq!(
            error.to_string(),
            "error: `no-such-tool` is not installed: it is wanted\nhint: apt-get install \
             no-such-package\nerror: `no-other` is not installed: it is too\nhint: find it"
        );
    }

    #[test]
    fn firmware_is_asked_for_only_when_the_user_brings_none() {
        assert_eq!(
            for_run(Architecture::Arm64, true).len(),
            for_run(Architecture::Arm64, false).len() + 1
        );
    }
}
