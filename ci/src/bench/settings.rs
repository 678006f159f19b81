//! The cost of a node's settings as resources: its READY and memory with and without `osd`, and the
//! times until a resource is in effect and until a foreign value is replaced.
//!
//! The times contain the way to the node and back over QEMU's network.

use super::Row;
use crate::check::Timed;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::settings::{Lab, RECIPE, a_resource_holds_a_setting};
use crate::vm::{inside, probe};
use osbuild::error::{Context, Error, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The cost that `osd` may have.
const READY: Duration = Duration::from_secs(1);
const MEMORY: u64 = 10 << 20;

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let without = Machine::of_recipe(site, probe::RECIPE, "bench-without-osd")?;
    let without = inside::cost(without)?;
    let lab = Lab::new(site, "bench-settings")?;
    let with = inside::cost(lab.machine("cost")?)?;
    let size = |project: &Path, recipe: &str| {
        let path = project.join("out").join(recipe).join("node.efi");
        let file = fs::metadata(&path).or_build(|| format!("cannot read `{}`", path.display()));
        file.map(|file| file.len())
    };
    let mut rows = vec![
        Row::time("settings: power-on to READY without osd", without.ready),
        Row::time("settings: power-on to READY", with.ready).below(without.ready + READY),
        Row::size("settings: size of the UKI without osd", size(&site.project(), probe::RECIPE)?),
        Row::size("settings: size of the UKI", size(&lab.project, RECIPE)?),
        Row::size("settings: memory in use without osd", without.memory),
        Row::size("settings: memory in use", with.memory).less_than(without.memory + MEMORY),
    ];
    let checked = a_resource_holds_a_setting(site)?;
    if let Some(problem) = checked.problems.first() {
        return Err(Error::build("the check that measures the times failed").cause(problem));
    }
    let times = checked.times.into_iter();
    rows.extend(times.map(|Timed { claim, took, aim }| {
        Row::time(format!("settings: {claim}"), took).below(aim)
    }));
    Ok(rows)
}
