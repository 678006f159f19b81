//! What cannot boot says why.

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use crate::vm::machine;
use crate::vm::node::Node;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::vm::run::{RunOptions, Until, run};
use osbuild_abi::console::LOW_RAM;
use std::fs::File;
use std::time::Duration;

/// A disk with nothing to boot is told from a node that is slow: at once, with the firmware's own
/// words.
pub fn an_empty_disk_is_an_error_that_says_why(site: &Site) -> Result<Verdict> {
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let image = folder.path().join("empty.raw");
    File::create(&image)
        .and_then(|file| file.set_len(64 << 20))
        .or_build(|| "cannot make an empty disk".to_owned())?;
    let options = RunOptions {
        until: Until::Ready,
        timeout: Some(Duration::from_secs(120)),
        ..machine::options(site, image, "empty-disk")
    };
    let error = match run(site.report, &options) {
        Ok(_) => return Err(Error::build("an empty disk became a node")),
        Err(error) => error,
    };
    let log = error.problems[0]
        .log
        .as_ref()
        .is_some_and(|log| log.lines.iter().any(|line| line.contains("BdsDxe")));
    if log && error.to_string().contains("the firmware could start nothing on the disk") {
        return Ok(Verdict::holds(""));
    }
    Err(Error::build("the error does not say that there is nothing to boot").cause(error))
}

/// A node that takes longer than it may ends with an error that says how far it got.
pub fn a_node_that_is_not_ready_in_time_is_an_error_that_says_how_far_it_got(
    site: &Site,
) -> Result<Verdict> {
    let ran = site.run(
        "not-ready-in-time",
        site.osbuild()?.args(["run", RECIPE, "--until", "ready", "--timeout", "2", "--yes"]),
    )?;
    let told = ran.said.contains("error: the node was not ready after 2.0 s")
        && ran.said.contains("caused by: `init` has ended no phase yet");
    if ran.code == Some(1) && told {
        Ok(Verdict::holds(""))
    } else {
        Err(ran.failure("a timeout is not explained"))
    }
}

/// A machine with less memory than the board asks for says so on its console.
pub fn too_little_memory_is_said_on_the_console(site: &Site) -> Result<Verdict> {
    Node::start(site, "too-little-memory", RECIPE, &["--memory", "400"])?.until(LOW_RAM)?;
    Ok(Verdict::holds(""))
}

/// Without QEMU or without the firmware that the user named, the error says what to install or what
/// is not there.
pub fn what_a_machine_lacks_is_named(site: &Site) -> Result<Verdict> {
    let mut without_qemu = site.osbuild()?;
    without_qemu.args(["run", RECIPE, "--until", "ready", "--offline"]).env("PATH", "/nonexistent");
    let qemu = site.run("without-qemu", &mut without_qemu)?;
    if qemu.code != Some(1)
        || !qemu.said.contains("is not installed")
        || !qemu.said.contains("hint: apt-get install qemu-")
    {
        return Err(qemu.failure("a missing QEMU is not explained"));
    }
    let flags = ["run", RECIPE, "--until", "ready", "--firmware", "/nonexistent/CODE.fd", "--yes"];
    let firmware = site.run("without-firmware", site.osbuild()?.args(flags))?;
    if firmware.code != Some(2)
        || !firmware.said.contains("error: the firmware `/nonexistent/CODE.fd` does not exist")
    {
        return Err(firmware.failure("missing firmware is not explained"));
    }
    Ok(Verdict { passed: 2, ..Verdict::default() })
}
