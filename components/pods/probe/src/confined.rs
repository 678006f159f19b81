//! Reports what an AppArmor profile does to this container.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

/// The file whose text is the message of the ended container.
const MESSAGE: &str = "/dev/termination-log";
/// The folder to mount on.
const FOLDER: &str = "/dev/shm";

/// Prints `PROFILE, mount: OUTCOME`, and leaves it as the message of the container. A kernel
/// without AppArmor has no profile to report.
pub fn report() -> io::Result<()> {
    let profile = fs::read_to_string("/proc/self/attr/apparmor/current")?;
    let mounted = mount("confined", FOLDER, "tmpfs", MountFlags::empty(), None);
    let report = format!("{}, mount: {}", profile.trim(), word(mounted));
    println!("{report}");
    fs::write(MESSAGE, report)
}

fn word(outcome: rustix::io::Result<()>) -> String {
    match outcome {
        Ok(()) => "ok".to_owned(),
        Err(Errno::ACCESS) => "EACCES".to_owned(),
        Err(other) => other.to_string(),
    }
}
