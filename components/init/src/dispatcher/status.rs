//! What `status` on the admin and update sockets answers: `KEY VALUE` lines.

use std::fmt::Write;

use osbuild_abi::sockets::update;
use osbuild_failure::Outcome;

use super::{Dispatcher, Life};
use crate::host::host_name;
use crate::processes::process::State;
use crate::slot::content::{self, Held};
use crate::uptime::uptime;

impl Dispatcher {
    /// The lines about the node, each with its end.
    pub(super) fn status(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "uptime {:.3}", uptime().as_secs_f64());
        let _ = writeln!(text, "hostname {}", host_name::observe());
        let _ = writeln!(text, "node-name {}", self.node_name.name());
        let _ = match self.ready {
            Some(at) => writeln!(text, "ready {:.3}", at.as_secs_f64()),
            None => writeln!(text, "ready no"),
        };
        let _ = writeln!(text, "secure-boot {}", self.facts.secure_boot().word());
        let _ = writeln!(text, "watchdog {}", self.watchdog.word());
        match self.slot_status() {
            Ok(lines) => text.push_str(&lines),
            Err(failure) => drop(writeln!(text, "slot {failure}")),
        }
        for address in self.addresses.iter() {
            let _ = writeln!(text, "address {address}");
        }
        let lasting = |life| !matches!(life, Life::Task { .. });
        for process in self.processes.iter().filter(|one| lasting(one.program.life())) {
            let name = process.program.name();
            let _ = match process.state {
                State::Running { pid, since } => {
                    let (pid, since) = (pid.as_raw_nonzero(), since.as_secs_f64());
                    writeln!(text, "{name} running pid {pid} since {since:.3}")
                }
                State::Waiting { .. } => {
                    let failures = process.backoff.failures();
                    writeln!(text, "{name} failed {failures} times in a row")
                }
                State::Ended => writeln!(text, "{name} ended"),
            };
        }
        text
    }

    /// The lines about the slots, each with its end.
    pub(super) fn slot_status(&self) -> Outcome<String> {
        let source = &self.facts.boot_source;
        let Some(name) = source.slot() else { return Ok("slot unknown\n".to_owned()) };
        let mut text = String::new();
        let _ = writeln!(text, "slot {name}");
        let _ = writeln!(text, "slot-why {}", source.reason().unwrap_or_default());
        for occupied in source.slots()? {
            let which = if occupied.runs { "running" } else { "other" };
            let (name, content) = (occupied.slot.name, &occupied.content);
            let state = content::state(&occupied.slot);
            let _ = writeln!(text, "slot-{which} {name}, {content}: {state}");
            let held = content.digest().map(|digest| Held::new(name, &digest));
            if held.is_some_and(|held| self.reach.is_outage(&held)) {
                let _ = writeln!(text, "{}{name}", update::OUTAGE);
            }
        }
        Ok(text)
    }
}
