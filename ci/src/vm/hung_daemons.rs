//! `init` replaces daemons that hang.

use super::probe::{self, free_port};
use super::slots::disk::SlotDisk;
use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild_abi::console::{READY, SLOT_GOOD};
use osbuild_abi::paths::ADMIN_SOCKET;
use osbuild_protocol::Request;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

/// How long a daemon may hang until `init` has replaced it, according to the README of `init`.
const REPLACED_WITHIN: Duration = Duration::from_secs(180);

/// How long a daemon may run before it must answer health checks.
const GRACE_PERIOD: Duration = Duration::from_secs(120);

/// The programs of the node's pods. Their pods share a shim, which outlasts each of them.
const PROGRAMS: [&str; 3] = ["dhcp", "probe", "time"];

/// A stopped kubelet and then a stopped containerd are replaced in time, and the pods go on.
pub fn a_daemon_that_hangs_is_replaced(site: &Site) -> Result<Outcome> {
    let disk = SlotDisk::of_recipe(site, probe::RECIPE, "hung-daemons")?;
    let (facts, socket, signal) = (free_port()?, free_port()?, free_port()?);
    let machine = disk.machine()?.forward(facts, probe::FACTS).forward(socket, probe::SOCKET);
    let mut node = machine.forward(signal, probe::SIGNAL).start()?;
    node.wait_for(READY)?;
    let ready = Instant::now();
    node.wait_for(SLOT_GOOD)?;
    let before = probe::report(facts)?;
    let pods = programs(&before);
    let mut times = Vec::new();
    for daemon in ["kubelet", "containerd"] {
        let before = status_of(socket, daemon)?;
        std::thread::sleep(GRACE_PERIOD.saturating_sub(ready.elapsed()));
        probe::command(signal, |stream| write!(stream, "{daemon} STOP"))?;
        let since = Instant::now();
        node.wait_for_within(
            &format!("init: health: {daemon} has given no answer"),
            REPLACED_WITHIN,
        )?;
        while status_of(socket, daemon).is_ok_and(|now| now == before || !now.contains("running")) {
            if since.elapsed() > REPLACED_WITHIN {
                return Err(Error::build(format!(
                    "{daemon} hung and was not replaced within {REPLACED_WITHIN:?}"
                )));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        times.push(format!("{daemon} {:.0} s", since.elapsed().as_secs_f64()));
    }
    let after = probe::report(facts)?;
    let left = programs(&after);
    if pods.len() != PROGRAMS.len() || pods != left {
        return Err(Error::build("not all pods went on").cause(format!("{pods:?} became {left:?}")));
    }
    node.power_off()?;
    Ok(Outcome { passed: 3, summary: times.join(", "), ..Outcome::default() })
}

/// The line of `status` about a daemon, through the port of the loopback that leads to
/// [`probe::SOCKET`]. It has the daemon's process identifier.
pub fn status_of(port: u16, daemon: &str) -> Result<String> {
    let status = probe::ask_init(port, ADMIN_SOCKET, &Request::Status)?;
    let line = status.lines().find(|line| line.starts_with(&format!("{daemon} ")));
    line.map(str::to_owned).ok_or_else(|| {
        Error::build(format!("`status` has no line about {daemon}")).cause(status.clone())
    })
}

/// The programs of pods with their process identifiers, from the probe's report.
fn programs(facts: &str) -> BTreeSet<(&str, &str)> {
    let program = |line| {
        let mut words = str::split(line, ' ');
        let program = (words.next()? == "pod").then_some((words.next()?, words.next()?));
        program.filter(|(name, _)| PROGRAMS.contains(name))
    };
    facts.lines().filter_map(program).collect()
}
