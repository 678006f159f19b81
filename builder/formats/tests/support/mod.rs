//! Runs the tools that serve as oracles.

use std::process::Command;

/// Runs a tool and returns its standard output. The test fails if the tool fails or is missing; the
/// message names its Debian package.
pub fn tool(package: &str, command: &mut Command) -> String {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?}: {error}: install the Debian package `{package}`"),
    };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
}
