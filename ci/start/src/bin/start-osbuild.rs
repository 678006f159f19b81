//! `cargo osbuild …` compiles `osbuild` if it is out of date, and executes it. This program has no
//! dependencies, so that a new checkout prints its first line after a second. If nothing has
//! changed, cargo is not started.

use std::convert::Infallible;
use std::io::{self, Error};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Err(error) = start();
    match error.downcast::<Failed>() {
        Ok(Failed(code)) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: cannot start `osbuild`\n  caused by: {error}");
            ExitCode::FAILURE
        }
    }
}

/// cargo failed with this exit code, and has printed the reason.
#[derive(Debug)]
struct Failed(u8);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cargo ended with exit code {}", self.0)
    }
}

impl std::error::Error for Failed {}

/// `osbuild` calls Linux directly and runs on no other system.
#[cfg(not(target_os = "linux"))]
fn start() -> io::Result<Infallible> {
    let hint = "use a virtual machine or a container with Linux";
    Err(Error::other(format!(
        "it runs only on Linux, and this is {}\nhint: {hint}",
        std::env::consts::OS
    )))
}

/// Compiles `osbuild`, and executes it.
#[cfg(target_os = "linux")]
fn start() -> io::Result<Infallible> {
    use start::fresh::Fresh;
    use start::progress::{self, Work};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    let program = start::target()?.join("release/osbuild");
    let fresh =
        Fresh::new(&program, start::checkout(), &std::env::current_dir()?, std::env::vars_os());
    if !fresh.is_current() {
        let begun = fresh.begin()?;
        let first = "`osbuild` is compiled first, for about 6 minutes on 2 cores; later calls \
                     start at once";
        let work = Work { name: "osbuild", notice: (!program.exists()).then_some(first) };
        let status = progress::show(
            start::cargo().args(["build", "--release", "--package", "osbuild", "--bin", "osbuild"]),
            &work,
        )?;
        if !status.success() {
            // The exit code of a shell for a program that a signal ended.
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
            return Err(Error::other(Failed(u8::try_from(code).unwrap_or(1))));
        }
        begun.done()?;
    }
    Err(Command::new(program).args(std::env::args_os().skip(1)).exec())
}
