//! `cargo ci …`: compiles the checks and `osbuild` in the build folder that all checkouts of this
//! user share, and executes the checks. It has no dependencies, so that a new checkout prints its
//! first line after a second.

use start::Compiled;
use start::progress::{self, Work};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Error};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The subcommand for which everything is compiled with optimizations, because it measures.
const MEASURES: &str = "bench";

/// The profiles for checks and for measurements, and cargo's folders for them.
const CHECKED: (&str, &str) = ("dev", "debug");
const MEASURED: (&str, &str) = ("release", "release");

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Err(error) = start(&words);
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Compiles the checks, and executes them.
fn start(words: &[OsString]) -> io::Result<Infallible> {
    let (profile, folder) = if measures(words) { MEASURED } else { CHECKED };
    let mut cargo = Compiled::usual()?.cargo(
        start::checkout(),
        |waits| eprintln!("note: {waits}"),
        || Ok(()),
    )?;
    cargo.args([
        "build",
        "--locked",
        "--profile",
        profile,
        "--package",
        "ci",
        "--package",
        "osbuild",
        "--bins",
    ]);
    if !progress::show(&mut cargo, &Work { name: "the checks", notice: None })?.success() {
        return Err(Error::other("the checks do not compile"));
    }
    drop(cargo);
    // This program may be in the folder of another profile.
    let program = start::target()?.join(folder).join("ci");
    Err(Command::new(program).args(words).exec())
}

/// Whether the command measures. An option may stand before its subcommand.
fn measures(words: &[OsString]) -> bool {
    let mut words = words.iter().filter(|word| !word.to_string_lossy().starts_with('-'));
    words.next().is_some_and(|word| word == MEASURES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_compiled_with_optimizations_wherever_an_option_stands() {
        let of = |line: &str| measures(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(of("bench") && of("bench farm") && of("--yes bench farm"));
        assert!(!of("") && !of("--yes") && !of("format bench") && !of("full"));
    }
}
