//! `mount` and, under that name, `losetup`, as the kubelet executes them. See the library.

use mount::failure::{FAILED, LOOP_FAILED, USAGE};
use mount::loop_request::{LOSETUP_USAGE, LoopRequest};
use mount::perform::{self, Outcome};
use mount::request::{MOUNT_USAGE, MountRequest};
use mount::{guard, loop_device, request::UsageError};
use osbuild_abi::program_names::LOSETUP;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let args: Vec<OsString> = words.collect();
    match Path::new(&name).file_name().is_some_and(|name| name == LOSETUP.name) {
        true => losetup(&args),
        false => mount(&args),
    }
}

fn mount(args: &[OsString]) -> ExitCode {
    if let Some(why) = guard::refusal() {
        eprintln!("mount: {why}");
        return ExitCode::from(USAGE);
    }
    match MountRequest::parse(args) {
        Ok(request) => perform(&request),
        Err(error) => refuse("mount", &error, MOUNT_USAGE),
    }
}

fn losetup(args: &[OsString]) -> ExitCode {
    if let Some(why) = guard::refusal() {
        eprintln!("losetup: {why}");
        return ExitCode::from(USAGE);
    }
    let result = match LoopRequest::parse(args) {
        Ok(LoopRequest::Attach(path)) => loop_device::attach(&path).map(drop),
        Ok(LoopRequest::Detach(number)) => loop_device::detach(number),
        Err(error) => return refuse("losetup", &error, LOSETUP_USAGE),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("losetup: {failure}");
            ExitCode::from(LOOP_FAILED)
        }
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

fn refuse(name: &str, error: &UsageError, usage: &str) -> ExitCode {
    eprintln!("{name}: {error}; usage: {usage}");
    ExitCode::from(USAGE)
}
