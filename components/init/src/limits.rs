//! The resource limits that every process of the node starts from.

use osbuild_failure::{Explain, Outcome};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::node::Node;

/// How many files a process may have open: what it starts with, which old programs count up to, and
/// what it may raise that to, which both daemons do. The kernel's own maximum for the latter is a
/// few thousand.
const OPEN_FILES: Rlimit = Rlimit { current: Some(1024), maximum: Some(1 << 20) };

/// Sets them for `init`, from which all others inherit them.
pub fn set(_: &mut Node) -> Outcome {
    setrlimit(Resource::Nofile, OPEN_FILES).explain("raise the limit of open files")
}
