//! Ctrl-C ends a running node.

use crate::check::Outcome;
use crate::image::RECIPE;
use crate::site::Site;
use crate::vm::run_command::RunCommand;
use osbuild::error::{Error, Result};
use std::fs;
use std::path::Path;

/// The exit code of an interrupted program.
const INTERRUPTED: i32 = 130;

/// Ctrl-C during a boot: the exit code is 130, and the machine has ended with the program.
pub fn ctrl_c_ends_the_machine_with_code_130(site: &Site) -> Result<Outcome> {
    let mut command = RunCommand::start(site, "interrupted", RECIPE, &["--until", "ready"])?;
    command.wait_for("BdsDxe: starting")?;
    let machines = children(command.id());
    if machines.is_empty() {
        return Err(Error::build("no machine runs"));
    }
    let (code, output) = command.interrupt()?;
    let left: Vec<&String> =
        machines.iter().filter(|id| Path::new("/proc").join(id).exists()).collect();
    if !left.is_empty() {
        return Err(Error::build(format!("the machine still runs as {left:?}")));
    }
    if code != Some(INTERRUPTED) || !output.ends_with("error: stopped\n") {
        return Err(Error::build(format!("the exit code is {code:?}")).cause(output));
    }
    Ok(Outcome::holds(""))
}

/// The ids of a process's children.
fn children(id: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}
