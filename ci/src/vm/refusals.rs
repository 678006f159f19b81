//! Boots that fail, and their errors.

use crate::check::Outcome;
use crate::disk_file;
use crate::image::RECIPE;
use crate::site::Site;
use crate::vm::machine::Machine;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::console::LOW_RAM;
use std::time::Duration;

/// An empty disk is an error at once, not a timeout, and the error quotes the firmware.
pub fn an_empty_disk_is_an_error_that_quotes_the_firmware(site: &Site) -> Result<Outcome> {
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let image = folder.path().join("empty.raw");
    disk_file::create(&image, 64 << 20)?;
    let machine = Machine::new(site, image, "empty-disk").timeout(Duration::from_secs(120));
    let error = match machine.run_until_ready() {
        Ok(_) => return Err(Error::build("a node booted from an empty disk")),
        Err(error) => error,
    };
    let log = error.problems[0]
        .log
        .as_ref()
        .is_some_and(|log| log.lines.iter().any(|line| line.contains("BdsDxe")));
    if log && error.to_string().contains("the firmware could not boot from the disk") {
        return Ok(Outcome::holds(""));
    }
    Err(Error::build("the error does not explain that the disk is empty").cause(error))
}

/// `--timeout`: if the node takes longer, the error names the last phase of the boot.
pub fn a_boot_that_times_out_names_its_last_phase(site: &Site) -> Result<Outcome> {
    let ran = site.run(
        "not-ready-in-time",
        site.osbuild()?.args(["run", RECIPE, "--until", "ready", "--timeout", "2", "--yes"]),
    )?;
    let explained = ran.output.contains("error: the node was not ready after 2.0 s")
        && ran.output.contains("caused by: `init` has not completed any phase yet");
    if ran.code == Some(1) && explained {
        Ok(Outcome::holds(""))
    } else {
        Err(ran.failure("a timeout is not explained"))
    }
}

/// A node with less memory than its board asks for warns on the console.
pub fn a_node_with_too_little_memory_warns(site: &Site) -> Result<Outcome> {
    let machine = Machine::of_recipe(site, RECIPE, "too-little-memory")?.memory(400);
    machine.start()?.wait_for(LOW_RAM).map(Outcome::holds)
}

/// If QEMU is missing, the error names the package to install; if the firmware of `--firmware` is
/// missing, its file.
pub fn missing_programs_and_firmware_are_named(site: &Site) -> Result<Outcome> {
    let mut without_qemu = site.osbuild()?;
    without_qemu.args(["run", RECIPE, "--until", "ready", "--offline"]).env("PATH", "/nonexistent");
    let qemu = site.run("without-qemu", &mut without_qemu)?;
    if qemu.code != Some(1)
        || !qemu.output.contains("is not installed")
        || !qemu.output.contains("hint: apt-get install qemu-")
    {
        return Err(qemu.failure("a missing QEMU is not explained"));
    }
    let flags = ["run", RECIPE, "--until", "ready", "--firmware", "/nonexistent/CODE.fd", "--yes"];
    let firmware = site.run("without-firmware", site.osbuild()?.args(flags))?;
    if firmware.code != Some(2)
        || !firmware.output.contains("error: the firmware `/nonexistent/CODE.fd` does not exist")
    {
        return Err(firmware.failure("missing firmware is not explained"));
    }
    Ok(Outcome { passed: 2, ..Outcome::default() })
}
