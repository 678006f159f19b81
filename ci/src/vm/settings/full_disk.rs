//! A resource that is created while no program without a reserve can write to DATA.

use super::node::{Node, TIMEOUT};
use crate::check::Outcome;
use crate::vm::probe;
use osbuild::error::Result;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PARAMETERS: &str = "KernelParameters";
const ID: &str = "full";
const SPEC: &str = "key: vm.vfs_cache_pressure\nvalue: '77'\n";
/// The file of the parameter, and its value.
const FILE: (&str, &str) = ("/proc/sys/vm/vfs_cache_pressure", "77");

/// Scripts for the privileged pod: one uses up the space that the reserve leaves, at last by
/// a program without privileges; one counts the lines of the file of `osd` that name the resource.
const FILL: &str = "cd /proc/1/root && cd data && set -- $(df -kP . | tail -n 1) \
    && { fallocate -l ${4}k filler; unshare -U cat /dev/zero >>filler; df -kP . ; } 2>&1";
const EMPTY: &str = "cd /proc/1/root && rm data/filler 2>&1";
const KEPT: &str = "cd /proc/1/root && grep -c vfs_cache_pressure data/osd/resources";

/// The pause before the file is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// The setting takes effect, its caller learns that it is not kept, and it is kept as soon as there
/// is space.
pub fn keeps_no_setting_until_there_is_space(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let shown = run(node, FILL)?;
    let is_full = shown.contains("No space left") && shown.contains("100%");
    outcome.check("DATA is full", is_full, || shown.clone());
    let refused = node.create(PARAMETERS, ID, SPEC);
    let reason = refused.err().map(|error| format!("{error:?}")).unwrap_or_default();
    let holds = reason.contains("the change is in effect, but would not outlast a restart")
        && reason.contains("No space left on device");
    outcome.check("a full disk is the reason why a setting is not kept", holds, || reason);
    let within = node.becomes(FILE.0, FILE.1)?;
    outcome.check("the setting is in effect", within.is_some(), || "it is not".into());
    let found = run(node, KEPT)?;
    outcome.check("it is not kept then", found.trim() == "0", || found.clone());

    let shown = run(node, EMPTY)?;
    outcome.check("the space is free again", shown.is_empty(), || shown.clone());
    let (began, mut found) = (Instant::now(), run(node, KEPT)?);
    while found.trim() == "0" && began.elapsed() < TIMEOUT {
        sleep(PAUSE);
        found = run(node, KEPT)?;
    }
    let is_kept = found.trim().parse().is_ok_and(|lines: u32| lines > 0);
    outcome.check("it is kept once there is space", is_kept, || found);
    Ok(())
}

/// It is in effect after a power cut, and goes with its resource.
pub fn has_kept_it_after_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let found = node.read(FILE.0)?;
    outcome.check("it outlasts a power cut", found == FILE.1, || found);
    node.destroy(PARAMETERS, ID)
}

/// Runs a script in the privileged pod, and returns its output.
fn run(node: &Node, script: &str) -> Result<String> {
    probe::request(node.stranger, |stream| write!(stream, "{script}\nexit\n"))
}
