//! The name of the node: the one that a pod told last, in this boot or an earlier one, or one made
//! of the machine id.

use osbuild_failure::{Explain, Outcome};
use rustix::system::sethostname;

use crate::machine_id;
use crate::name;
use crate::name_file;
use crate::node::Node;

/// The file on DATA.
const FILE: &str = "hostname";

/// Sets the name that the node starts with.
pub fn set_first(node: &mut Node) -> Outcome {
    let name = told().unwrap_or_else(|| {
        machine_id::short().map_or("node".to_owned(), |short| format!("node-{short}"))
    });
    apply(node, name)
}

/// The name that a pod told last, in this boot or an earlier one.
pub fn told() -> Option<String> {
    name_file::kept(FILE)
}

/// Sets the name that a pod told, and keeps it for the next boot.
pub fn set(node: &mut Node, name: &str) -> Outcome {
    let name = name::check(name)?;
    // At once, and not by the writer: the name in the cluster is chosen by what is kept.
    let kept = name_file::keep(FILE, &name);
    apply(node, name)?;
    kept
}

fn apply(node: &mut Node, name: String) -> Outcome {
    sethostname(name.as_bytes()).explain(format_args!("set the host name `{name}`"))?;
    node.host_name = name;
    Ok(())
}
