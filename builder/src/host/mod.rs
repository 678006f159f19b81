//! The tools that building, running and checking need on this machine, each with its reason and its
//! remedy. The contents of an image do not depend on them: the compilers of a build come from the
//! lock.

mod amd64;
mod install;
mod lack;
mod mirror;
mod program;
mod sandbox;
mod tool;

pub use install::{Consent, set_up};
pub use lack::Lack;
pub use tool::{Probe, Remedy, Tool};

use crate::error::{Error, Problem, Result};
use crate::plan::Architecture;
use crate::report::Report;
use crate::ship::vm::machine::{self, Firmware, SecureBoot};
use std::thread;

/// The oldest version of Go that fetches the toolchain in a module's go.mod.
const GO: (u32, u32) = (1, 21);

/// The tools that `cargo osbuild build` needs once it has all sources.
pub fn for_steps() -> Vec<Tool> {
    let other =
        |name: &str, why: &str, probe, words: &str| Tool { probe, ..Tool::other(name, why, words) };
    vec![
        other(
            "amd64",
            "is the architecture of the compilers of a build",
            Probe::Amd64,
            amd64::REMEDY,
        ),
        Tool::package("bwrap", "bubblewrap", "runs each step of the build in a sandbox"),
        other(
            "sandbox",
            "isolates each step of the build",
            Probe::Sandbox,
            "see builder/docs/hosts.md",
        ),
    ]
}

/// The clients that fetch and pin sources.
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
            probe: Probe::Go { min: GO },
            ..Tool::other(
                "go",
                "fetches Go modules and the Go toolchain that the lock names",
                "install Go (https://go.dev/dl)",
            )
        },
    ]
}

/// The other needs of this machine: `osbuild` itself is compiled here, and some builds fetch
/// packages.
pub fn for_machine() -> Vec<Tool> {
    let compiler = "compiles the C code in the crates of `osbuild` itself";
    let mirror = "has the Debian packages that the lock names";
    vec![
        Tool::package("cc", "build-essential", compiler),
        Tool {
            probe: Probe::DebianMirror,
            ..Tool::other("Debian mirror", mirror, "see builder/docs/hosts.md")
        },
    ]
}

/// The additional tools of `osbuild run` for nodes of this architecture. `firmware` is false if the
/// user names one, and `files` is true if the user has files for the node.
pub fn for_run(architecture: Architecture, firmware: bool, files: bool) -> Vec<Tool> {
    let mut tools = vec![
        Tool::package(
            machine::program(architecture),
            machine::package(architecture),
            "emulates the machine of the node",
        ),
        Tool::package("qemu-img", "qemu-utils", "makes a temporary disk over the image"),
    ];
    if files {
        tools.push(Tool::package("debugfs", "e2fsprogs", "places files on the node's disk"));
    }
    if firmware {
        let places = [SecureBoot::Off, SecureBoot::Setup]
            .iter()
            .flat_map(|secure_boot| Firmware::known(architecture, secure_boot))
            .map(|firmware| firmware.code)
            .collect();
        tools.push(Tool {
            name: format!("UEFI firmware for {architecture}"),
            why: "starts the node from its disk".to_owned(),
            probe: Probe::AnyFile(places),
            remedy: Remedy::Package(Firmware::package(architecture).to_owned()),
        });
    }
    tools
}

/// Prints the state of every tool, after installing missing ones if `fix` is set.
///
/// # Errors
/// A tool is missing or does not work.
pub fn doctor(report: &Report, tools: &[Tool], fix: Option<Consent>, json: bool) -> Result<()> {
    if let Some(consent) = fix {
        set_up(report, tools, consent)?;
    }
    let lacks = lacks(tools);
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

/// Why each of these tools cannot be used, if it cannot. Most of the time that a probe takes is
/// that of a program, so they run beside each other.
fn lacks(tools: &[Tool]) -> Vec<Option<Lack>> {
    thread::scope(|scope| {
        let probes = tools.iter().map(|tool| scope.spawn(|| tool.lack())).collect::<Vec<_>>();
        let joined = probes.into_iter().map(|probe| probe.join());
        joined.map(|lack| lack.expect("a probe does not panic")).collect()
    })
}

/// A row of `doctor`, with more lines for a tool that exists but does not work.
fn line(tool: &Tool, lack: Option<&Lack>) -> String {
    let row = |word: &str| format!("{word:8} {:28} {}", tool.name, tool.why);
    match lack {
        None => row("ok"),
        Some(Lack { problem, cause: Some(cause), remedy }) => {
            format!("{}\n  {problem}\n  caused by: {cause}\n  hint: {remedy}", row("fails"))
        }
        Some(Lack { remedy, .. }) => format!("{} ({remedy})", row("missing")),
    }
}

fn lacking(count: usize) -> Error {
    let tools = if count == 1 { "tool is missing or does" } else { "tools are missing or do" };
    Error::build(format!("{count} {tools} not work on this machine"))
        .hint("`cargo osbuild doctor --fix` installs tools from Debian and rustup")
}

/// The error for missing or broken tools, with their remedies.
fn missing(lacks: impl IntoIterator<Item = Lack>) -> Error {
    let missing = |Lack { problem, cause, remedy }| {
        cause.into_iter().fold(Problem::new(problem), Problem::cause).hint(remedy)
    };
    Error::many(crate::error::Kind::Build, lacks.into_iter().map(missing).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_remedy() {
        let tools = [
            Tool::package("no-such-tool", "no-such-package", "is required"),
            Tool::other("no-other", "is too", "find it"),
        ];
        let error = missing(tools.iter().filter_map(Tool::lack));
        assert_eq!(
            error.to_string(),
            "error: `no-such-tool` is not installed: it is required\nhint: apt-get install \
             no-such-package\nerror: `no-other` is not installed: it is too\nhint: find it"
        );
    }

    #[test]
    fn firmware_is_required_only_if_the_user_names_none() {
        assert_eq!(
            for_run(Architecture::Arm64, true, false).len(),
            for_run(Architecture::Arm64, false, false).len() + 1
        );
    }
}
