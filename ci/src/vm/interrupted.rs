//! Ctrl-C ends a running node.

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use crate::vm::node::Node;
use osbuild::error::{Error, Result};
use std::fs;
use std::path::Path;

/// The exit code of what was interrupted.
const INTERRUPTED: i32 = 130;

/// Ctrl-C in the middle of a boot: exit code 130, and the machine is gone with the program that
/// started it.
pub fn ctrl_c_ends_the_machine_with_code_130(site: &Site) -> Result<Verdict> {
    let mut node = Node::start(site, "interrupted", RECIPE, &["--until", "ready"])?;
    node.until("BdsDxe: starting")?;
    let machines = children(node.id());
    if machines.is_empty() {
        return Err(Error::build("no machine runs"));
    }
    let (code, said) = node.interrupt()?;
    let left: Vec<&String> =
        machines.iter().filter(|id| Path::new("/proc").join(id).exists()).collect();
    if !left.is_empty() {
        return Err(Error::build(format!("the machine still runs as {left:?}")));
    }
    if code != Some(INTERRUPTED) || !said.ends_with("error: stopped\n") {
        return Err(Error::build(format!("the exit code is {code:?}")).cause(said));
    }
    Ok(Verdict::holds(""))
}

/// The processes that a process has started, by number.
fn children(id: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}
