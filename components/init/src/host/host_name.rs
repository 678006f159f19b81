//! The host name of the kernel.

use osbuild_failure::{Explain, Outcome};
use rustix::system::{sethostname, uname};

use crate::data::{machine_id, name_file};

/// The file on DATA with the name that the network gave last.
const FILE: &str = "hostname";

/// Sets the host name.
pub fn apply(name: &str) -> Outcome {
    sethostname(name.as_bytes()).explain(format_args!("set the host name `{name}`"))
}

/// The host name that is set.
pub fn observe() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// The name of the image's rank: made from the machine id, so that no two nodes share it.
pub fn of_machine() -> String {
    machine_id::short().map_or("node".to_owned(), |short| format!("node-{short}"))
}

/// The name that the network gave last, in this boot or an earlier one.
pub fn kept() -> Option<String> {
    name_file::kept(FILE)
}

/// Keeps a name that the network gave for the next boots.
pub fn keep(name: &str) -> Outcome {
    name_file::keep(FILE, name)
}
