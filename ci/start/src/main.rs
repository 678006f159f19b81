//! `cargo ci …`: compiles the checks and `osbuild` itself where all checkouts of this user share
//! what they compile, and becomes the checks. It needs no crate, so that a new checkout's first
//! words come after a second.

use start::Compiled;
use start::progress::{self, Work};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Error};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The word after which everything is compiled as a user would have it, because it is measured.
const MEASURES: &str = "bench";

/// The profile of the checks, and that of what is measured, with the folders in which cargo puts
/// them.
const CHECKED: (&str, &str) = ("dev", "debug");
const MEASURED: (&str, &str) = ("release", "release");

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Err(error) = start(&words);
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Compiles, and becomes what was compiled.
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
    // This program's own folder may be that of another profile.
    let program = start::target()?.join(folder).join("ci");
    Err(Command::new(program).args(words).exec())
}
