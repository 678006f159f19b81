//! `cargo ci …`: compiles the checks and `osbuild` itself where all checkouts of this user share what they compile, and becomes the checks.
//! It needs no crate, so that a new checkout's first words come after a second.

use start::Compiled;
use std::ffi::OsString;
use std::io::{self, Error};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The word after which everything is compiled as a user would have it, because it is measured.
const MEASURES: &str = "bench";

/// The profile of the checks, and that of what is measured, with the folders in which cargo puts them.
const CHECKED: (&str, &str) = ("dev", "debug");
const MEASURED: (&str, &str) = ("release", "release");

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Err(error) = start(&words);
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Compiles, and becomes what was compiled.
fn start(words: &[OsString]) -> io::Result<std::convert::Infallible> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate stands in `ci/start`");
    let (profile, folder) = if words.first().is_some_and(|word| word == MEASURES) { MEASURED } else { CHECKED };
    let mut cargo = Compiled::usual()?.cargo(root, |waits| eprintln!("note: {waits}"))?;
    cargo.args(["build", "--quiet", "--locked", "--profile", profile, "--package", "ci", "--package", "osbuild", "--bins"]);
    if !cargo.status()?.success() {
        return Err(Error::other("the checks do not compile"));
    }
    drop(cargo);
    // This program stands where cargo puts what a checkout's packages are compiled to, in the folder of another profile perhaps.
    let ours = std::env::current_exe()?;
    let program = ours.ancestors().nth(2).expect("cargo puts programs two folders deep").join(folder).join("ci");
    Err(Command::new(program).args(words).exec())
}
