//! What `status` on the admin socket answers: `KEY VALUE` lines.

use std::fmt::Write;

use crate::node::Node;
use crate::process::State;
use crate::slot;
use crate::uptime::uptime;

/// The lines, each with its end.
pub fn lines(node: &Node) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "uptime {:.3}", uptime().as_secs_f64());
    let _ = writeln!(text, "hostname {}", node.host_name);
    let _ = writeln!(text, "node-name {}", node.node_name);
    let _ = match node.ready {
        Some(at) => writeln!(text, "ready {:.3}", at.as_secs_f64()),
        None => writeln!(text, "ready no"),
    };
    let _ = writeln!(text, "secure-boot {}", node.secure_boot.word());
    let _ = writeln!(text, "watchdog {}", node.watchdog.word());
    match slot::status(node) {
        Ok(lines) => text.push_str(&lines),
        Err(failure) => drop(writeln!(text, "slot {failure}")),
    }
    for address in &node.addresses {
        let _ = writeln!(text, "address {address}");
    }
    for process in &node.processes {
        let _ = match process.state {
            State::Running { pid, since } => {
                writeln!(
                    text,
                    "{} running pid {} since {:.3}",
                    process.name,
                    pid.as_raw_nonzero(),
                    since.as_secs_f64()
                )
            }
            State::Waiting { .. } => writeln!(
                text,
                "{} failed {} times in a row",
                process.name,
                process.backoff.failures()
            ),
            State::Ended => writeln!(text, "{} ended", process.name),
        };
    }
    text
}
