//! `init`: PID 1 of the node.
//!
//! It starts twice. As `/init` of the initramfs it makes the root ([`boot::early`]); as `/bin/init`
//! in that root it boots ([`boot`]), keeps the daemons running, and ends the node in order
//! ([`shutdown`]). The [`event_loop`] waits and returns typed events, and the [`dispatcher`], the
//! only module that sees all state, hands them to the modules that decide. Work that needs gRPC or
//! may take long is done by short-lived [`children`] of the same program.

#![deny(unsafe_code)]

mod boot;
mod children;
mod console;
mod daemons;
mod data;
mod disk_worker;
mod dispatcher;
mod event_loop;
mod facts;
mod hardware;
mod host;
mod logind;
mod processes;
mod sequence;
mod shutdown;
mod slot;
mod sockets;
mod summary;
mod sys;
mod uptime;
mod work;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use init::{
    api_response, console_command, daemon_line, lines, meminfo, mountinfo, name, routes, swaps,
    variable,
};
use osbuild_abi::console::FAILED;
use osbuild_abi::paths::LAYERS;
use osbuild_failure::Failure;

use crate::dispatcher::Dispatcher;

fn main() -> ExitCode {
    if std::process::id() != 1 {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        return children::run(&arguments);
    }
    if Path::new(LAYERS).exists() {
        fail_early(&boot::early::run());
    }
    // Ctrl-Alt-Del becomes a signal, and so an ordered reboot. If this fails, the kernel reboots by
    // itself.
    let _ = rustix::system::reboot(rustix::system::RebootCommand::CadOff);
    // All threads and processes of the node inherit the group.
    match data::reserve::join_group().and_then(|()| Dispatcher::new()) {
        Ok(mut node) => loop {
            node.turn();
        },
        Err(failure) => fail_early(&failure),
    }
}

/// Reboots a node that has no root or no console of its own yet.
fn fail_early(failure: &Failure) -> ! {
    // A failed write changes nothing: PID 1 must not exit.
    let _ = writeln!(std::io::stderr(), "{FAILED} root: {failure}");
    shutdown::power::give_up_early()
}
