//! A node's boot time, size and memory use.

use super::{Row, handmade};
use crate::image::RECIPE;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::{inside, probe};
use osbuild::error::{Context, Result};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// The memory that a ready node may use.
const MEMORY: u64 = 200 << 20;

/// The time that slotboot may add to a boot, without hashing and without the firmware's loading.
const SLOTBOOT: Duration = Duration::from_millis(300);

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in ["image.raw", "node.efi", "initramfs.cpio"] {
        let path = site.project().join("out").join(RECIPE).join(name);
        let size =
            fs::metadata(&path).or_build(|| format!("cannot read `{}`", path.display()))?.len();
        rows.push(Row::size(format!("size of {name}"), size));
    }
    let ran = site.finish(
        "bench-boot",
        site.osbuild()?.args(["run", RECIPE, "--until", "ready", "--json", "--quiet", "--yes"]),
    )?;
    let boot: Value = serde_json::from_str(ran.output.trim())
        .or_build(|| "cannot read the output of `osbuild run --json`".to_owned())?;
    let seconds = |value: &Value| Duration::from_secs_f64(value.as_f64().unwrap_or_default());
    rows.push(Row::time("boot: firmware", seconds(&boot["firmware"])));
    let slotboot = &boot["slotboot"];
    rows.push(
        Row::time("boot: slotboot's own share of that", seconds(&slotboot["own"])).below(SLOTBOOT),
    );
    rows.push(Row::time("boot: slotboot's hashing", seconds(&slotboot["hash"])));
    rows.push(Row::time("boot: the firmware's loading of the UKI", seconds(&slotboot["load"])));
    for phase in boot["phases"].as_array().into_iter().flatten() {
        rows.push(Row::time(
            format!("boot: {}", phase["name"].as_str().unwrap_or_default()),
            seconds(&phase["seconds"]),
        ));
    }
    let by_hand = handmade::first_pod(site)?;
    rows.push(Row::time("hand-made node: power-on to a pod's first line", by_hand));
    let aim = by_hand + seconds(&boot["firmware"]);
    rows.push(
        Row::time("boot: power-on to the first pod's work", seconds(&boot["addressed"])).below(aim),
    );
    rows.push(Row::time("boot: power-on to READY", seconds(&boot["ready"])));
    let machine = Machine::of_recipe(site, probe::RECIPE, "bench")?;
    let cost = inside::cost(machine)?;
    rows.push(Row::size("memory in use at READY", cost.memory).less_than(MEMORY));
    let resident = cost.resident.into_iter();
    rows.extend(resident.map(|(name, bytes)| Row::size(format!("resident: {name}"), bytes)));
    Ok(rows)
}
