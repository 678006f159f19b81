//! The types of a node's kernel (BTF), as the library of agents reads them.

use super::machine::Machine;
use super::probe::{self, free_port};
use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::{Context, Result};
use std::process::Command;

/// A type that agents read, and a member of it.
const TYPE: [&str; 2] = ["struct task_struct {", "pid_t pid;"];

/// A pod of a node with the kernel group `btf` reads the file of the kernel's types. `bpftool` has
/// the library that adjusts agents' programs, and finds a type there.
pub fn agents_find_the_types_of_the_kernel(site: &Site) -> Result<Outcome> {
    let port = free_port()?;
    let machine = Machine::of_recipe(site, probe::BTF_RECIPE, "kernel-types")?;
    let _node = machine.forward(port, probe::TYPES).boot()?;
    let types = probe::types(port)?;
    let file = site.log("kernel-types.btf");
    std::fs::write(&file, &types).or_build(|| format!("cannot write `{}`", file.display()))?;
    let mut bpftool = Command::new("bpftool");
    bpftool.args(["btf", "dump", "file"]).arg(&file).args(["format", "c"]);
    let declared = site.finish("bpftool", &mut bpftool)?.output;
    let [start, member] = TYPE;
    let body = declared.split_once(start).and_then(|(_, rest)| rest.split_once("\n}"));
    let has_member = body.is_some_and(|(body, _)| body.contains(member));
    let mut outcome =
        Outcome { summary: format!("{} bytes of types", types.len()), ..Outcome::default() };
    outcome.check("an agent finds the kernel's types", has_member, || {
        format!("`bpftool` finds no `{start}` with `{member}` in {} bytes", types.len())
    });
    Ok(outcome)
}
