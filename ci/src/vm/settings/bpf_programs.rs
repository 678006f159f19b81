//! The programs of BPF that the kernel runs, as `osd` shows them.

use super::node::{Node, words, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

const TYPE: &str = "BpfPrograms";

/// The filter with which runc keeps a container in this control group from devices is a program
/// that is attached there.
pub fn keep_a_container_from_devices(
    node: &Node,
    cgroup: &str,
    outcome: &mut Outcome,
) -> Result<()> {
    let programs = node.resources(TYPE)?;
    let target = format!("cgroup {cgroup}");
    let filters =
        |program: &str| program.contains("type: cgroup_device ") && program.contains(&target);
    let holds = programs.iter().any(|program| filters(&words(yaml(program))));
    outcome.check("the device filter of a container is shown with its target", holds, || {
        format!("{target}{programs:?}")
    });
    Ok(())
}
