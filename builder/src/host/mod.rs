//! What has to be installed on the machine that builds, runs or checks: a table of tools, each with its reason and its remedy.
//!
//! What goes into an image never depends on these: the compilers of the build come from the lock.

mod install;
mod tool;

pub use install::{Consent, set_up};
pub use tool::{Found, Remedy, Tool};

use crate::error::{Error, Problem, Result};
use crate::plan::Architecture;
use crate::report::Report;
use crate::ship::machine::{self, Firmware, SecureBoot};

/// What `cargo osbuild build` needs when it has all sources.
pub fn for_steps() -> Vec<Tool> {
    vec![Tool::package("bwrap", "bubblewrap", "runs each step of the build in a sandbox")]
}

/// What fetches and pins sources: each ecosystem's own client.
pub fn for_sources() -> Vec<Tool> {
    vec![
        Tool::package("apt-get", "apt", "reads Debian's archive: the kernel's source, the sandbox, the UEFI stub"),
        Tool::other("cargo", "fetches the node's crates", "install Rust with rustup (https://rustup.rs)"),
        Tool::other("rustup", "fetches the Rust toolchain that the lock names", "install Rust with rustup (https://rustup.rs)"),
        Tool::other("go", "fetches Go modules and the Go toolchain that the lock names", "install Go (https://go.dev/dl)"),
    ]
}

/// What `osbuild run` needs besides, for nodes of this architecture. The firmware is left out where the user brings his own.
pub fn for_run(architecture: Architecture, firmware: bool) -> Vec<Tool> {
    let mut tools = vec![
        Tool::package(machine::program(architecture), machine::package(architecture), "is the machine that the node runs on"),
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
    let missing: Vec<bool> = tools.iter().map(|tool| !tool.is_there()).collect();
    if json {
        let rows = tools.iter().zip(&missing).map(|(tool, missing)| tool.row(*missing));
        report.data(serde_json::Value::from_iter(rows).to_string());
    } else {
        for (tool, missing) in tools.iter().zip(&missing) {
            let word = if *missing { "missing" } else { "ok" };
            let remedy = if *missing { format!(" ({})", tool.remedy) } else { String::new() };
            report.data(format!("{word:8} {:28} {}{remedy}", tool.name, tool.why));
        }
    }
    let count = missing.iter().filter(|missing| **missing).count();
    if count == 0 { Ok(()) } else { Err(lacking(count)) }
}

fn lacking(count: usize) -> Error {
    let things = if count == 1 { "tool is" } else { "tools are" };
    Error::build(format!("{count} {things} missing on this machine"))
        .hint("`cargo osbuild doctor --fix` installs what Debian and rustup have")
}

/// The error that names every missing tool with its reason and its remedy.
fn missing(tools: &[&Tool]) -> Error {
    let problems = tools
        .iter()
        .map(|tool| Problem::new(format!("`{}` is not installed: it {}", tool.name, tool.why)).hint(tool.remedy.to_string()));
    Error::many(crate::error::Kind::Build, problems.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let tools = [Tool::package("no-such-tool", "no-such-package", "is wanted"), Tool::other("no-other", "is too", "find it")];
        let error = missing(&tools.iter().collect::<Vec<_>>());
        assert_eq!(
            error.to_string(),
            "error: `no-such-tool` is not installed: it is wanted\nhint: apt-get install no-such-package\nerror: `no-other` is not installed: it is too\nhint: find it"
        );
    }

    #[test]
    fn firmware_is_asked_for_only_when_the_user_brings_none() {
        assert_eq!(for_run(Architecture::Arm64, true).len(), for_run(Architecture::Arm64, false).len() + 1);
    }
}
