//! `mount`, as the kubelet executes it. See the library.

use mount::failure::{FAILED, USAGE};
use mount::perform::{self, Outcome};
use mount::request::{MOUNT_USAGE, MountRequest};
use mount::{guard, request::UsageError};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(why) = guard::refusal() {
        eprintln!("mount: {why}");
        return ExitCode::from(USAGE);
    }
    match MountRequest::parse(&args) {
        Ok(request) => perform(&request),
        Err(error) => refuse(&error),
    }
}

fn perform(request: &MountRequest) -> ExitCode {
    let target = request.target.display();
    match perform::mount(request) {
        Ok(Outcome::Mounted) => ExitCode::SUCCESS,
        Ok(Outcome::MountedReadOnly) => {
            eprintln!("mount: {target}: WARNING: source write-protected, mounted read-only.");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("mount: {target}: {}.", failure.explain(request));
            ExitCode::from(FAILED)
        }
    }
}

fn refuse(error: &UsageError) -> ExitCode {
    eprintln!("mount: {error}; usage: {MOUNT_USAGE}");
    ExitCode::from(USAGE)
}
