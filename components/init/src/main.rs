//! `init`: PID 1 of the node.
//!
//! It lives twice. As `/init` of the initramfs it makes the root ([`early`]); as `/bin/init` in
//! that root it runs the boot ([`phases`]), keeps the daemons running ([`node`]) until somebody
//! asks for the end, and ends everything in order ([`shutdown`]). Work that needs gRPC is done by
//! short-lived [`children`] of the same program.

#![deny(unsafe_code)]

mod addresses;
mod backoff;
mod buttons;
mod children;
mod clock;
mod cluster;
mod console;
mod containerd;
mod data;
mod disks;
mod early;
mod errand;
mod flush;
mod gate;
mod grow;
mod health;
mod hostname;
mod identity;
mod images;
mod kubelet;
mod kubelet_config;
mod last_resort;
mod limits;
mod link;
mod log;
mod log_files;
mod machine_id;
mod memory;
mod mounts;
mod name_file;
mod node;
mod node_name;
mod obstacles;
mod phases;
mod process;
mod reached;
mod resolver;
mod run_files;
mod secure_boot;
mod servers;
mod severity;
mod shutdown;
mod slot;
mod sockets;
mod sys;
mod sysctl;
mod tidy;
mod trial;
mod uptime;
mod watchdog;
mod writable;
mod writer;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use init::{lines, mountinfo, name, variable};
use osbuild_abi::console::FAILED;
use osbuild_abi::paths::LAYERS;
use osbuild_failure::Failure;

use crate::node::Node;
use crate::phases::Boot;

/// How often to look whether what the boot waits for has come.
const BOOT_TURN: Duration = Duration::from_millis(10);
/// How often to look around when nothing happens.
const QUIET_TURN: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if std::process::id() != 1 {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        return children::run(&arguments);
    }
    if Path::new(LAYERS).exists() {
        fail_early(&early::run());
    }
    // Ctrl-Alt-Del is to be a signal and so an ordered reboot. Where it cannot be, it stays what
    // the kernel makes of it.
    let _ = rustix::system::reboot(rustix::system::RebootCommand::CadOff);
    match Node::new() {
        Ok(node) => live(node),
        Err(failure) => fail_early(&failure),
    }
}

/// Boots and then keeps the node running until its end.
fn live(mut node: Node) -> ! {
    let mut boot = Boot::default();
    loop {
        if let Err((phase, failure)) = boot.advance(&mut node) {
            node.console.failed(phase.name, failure);
            phase.note_failure(&mut node);
            shutdown::give_up(&mut node);
        }
        node.turn(if boot.is_under_way() { BOOT_TURN } else { QUIET_TURN });
        if let Some(end) = node.end {
            shutdown::run(&mut node, end);
        }
    }
}

/// The end of a node that has no root or no console of its own yet.
fn fail_early(failure: &Failure) -> ! {
    // Where there is no console there is nobody to tell, which must not end PID 1.
    let _ = writeln!(std::io::stderr(), "{FAILED} root: {failure}");
    shutdown::give_up_early()
}
