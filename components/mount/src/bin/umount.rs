//! `umount`, as the kubelet executes it. See the library.

use mount::failure::{FAILED, USAGE, explain_umount};
use mount::request::{UMOUNT_USAGE, UmountRequest};
use mount::{guard, perform};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(why) = guard::refusal() {
        eprintln!("umount: {why}");
        return ExitCode::from(USAGE);
    }
    let request = match UmountRequest::parse(&args) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("umount: {error}; usage: {UMOUNT_USAGE}");
            return ExitCode::from(USAGE);
        }
    };
    match perform::umount(&request) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errno) => {
            eprintln!("umount: {}: {}.", request.target.display(), explain_umount(errno));
            ExitCode::from(FAILED)
        }
    }
}
