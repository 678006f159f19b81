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
    let (profile, folder) =
        if words.first().is_some_and(|word| word == MEASURES) { MEASURED } else { CHECKED };
    let mut cargo =
        Compiled::usual()?.cargo(start::checkout(), |waits| eprintln!("note: {waits}"))?;
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
