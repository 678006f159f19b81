//! The pod `osd`: keeps the resources of a node and serves them with COSI's service `State`, beside
//! gRPC's services for health and reflection.
//!
//! Resources are in memory: they are gone when the program ends. It prints errors on stderr, and
//! ends only by a signal.

#![forbid(unsafe_code)]

mod catalog;
mod limits;
mod server;
mod shared;
mod socket;
mod state;
mod watches;
mod wire;

use catalog::{Accepts, Catalog};
use osbuild_failure::{Explain, Outcome};
use shared::SharedStore;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use state::StateService;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const USAGE: &str = "\
usage: osd [--accept-any-type] --socket PATH

Keeps resources in memory and serves them over gRPC (cosi.resource.State, health, reflection).
They are gone when osd ends.

  --socket PATH      the Unix socket, which only osd's user may connect to
  --accept-any-type  accept resources without a known definition, for the tests of other projects
";

enum Command {
    Serve { socket: PathBuf, accepts: Accepts },
    Help,
}

fn main() -> ExitCode {
    let outcome = match command(std::env::args().skip(1)) {
        Some(Command::Serve { socket, accepts }) => serve(socket, accepts),
        Some(Command::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        None => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command(mut words: impl Iterator<Item = String>) -> Option<Command> {
    let (mut socket, mut accepts) = (None, Accepts::Known);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--socket" => socket = Some(words.next()?.into()),
            "--accept-any-type" => accepts = Accepts::Any,
            "--help" => return Some(Command::Help),
            _ => return None,
        }
    }
    Some(Command::Serve { socket: socket?, accepts })
}

/// Serves until a signal ends the process. One thread is enough: no call waits for a disk.
fn serve(socket: PathBuf, accepts: Accepts) -> Outcome<()> {
    exit_on_signals()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .explain("start the runtime")?;
    let (store, catalog) = (Arc::new(SharedStore::new()?), Catalog::new(accepts)?);
    catalog.publish(&store)?;
    runtime.block_on(async {
        let listener = socket::listen(&socket)?;
        server::serve(listener, StateService::new(store, catalog)).await.explain("serve")
    })
}

/// Makes SIGTERM and SIGINT end the process, which the kernel does not do for PID 1 of a container.
fn exit_on_signals() -> Outcome<()> {
    static ALWAYS: AtomicBool = AtomicBool::new(true);
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, &ALWAYS).explain("handle signals")?;
    }
    Ok(())
}
