//! The name of the node: the one that a pod told last, in this boot or an earlier one, or one made of the machine id.

use std::path::{Path, PathBuf};

use osbuild_abi::paths::DATA;
use osbuild_failure::{Explain, Outcome};
use rustix::system::sethostname;

use crate::machine_id;
use crate::name;
use crate::node::Node;
use crate::whole_file;

/// Sets the name that the node starts with.
pub fn set_first(node: &mut Node) -> Outcome {
    let name = told().unwrap_or_else(|| machine_id::short().map_or("node".to_owned(), |short| format!("node-{short}")));
    apply(node, name)
}

/// The name that a pod told last, in this boot or an earlier one.
pub fn told() -> Option<String> {
    name::read(&path())
}

/// Sets the name that a pod told, and keeps it for the next boot.
pub fn set(node: &mut Node, name: &str) -> Outcome {
    let name = name::check(name)?;
    let kept = whole_file::write(&path(), &format!("{name}\n"), 0o644);
    apply(node, name)?;
    kept
}

fn apply(node: &mut Node, name: String) -> Outcome {
    sethostname(name.as_bytes()).explain(format_args!("set the host name `{name}`"))?;
    node.host_name = name;
    Ok(())
}

fn path() -> PathBuf {
    Path::new(DATA).join("hostname")
}
