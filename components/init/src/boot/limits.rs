//! The resource limits that every process of the node starts with.

use osbuild_failure::{Explain, Outcome};
use rustix::process::{Resource, Rlimit, setrlimit};

/// How many files a process may have open. It starts with the first number, which old programs
/// close one by one; both daemons raise it to the second. The kernel's own maximum is a few
/// thousand.
const OPEN_FILES: Rlimit = Rlimit { current: Some(1024), maximum: Some(1 << 20) };

/// Sets the limits of `init`, which all other processes inherit.
pub fn set() -> Outcome {
    setrlimit(Resource::Nofile, OPEN_FILES).explain("raise the limit of open files")
}
