//! `osctl`: reads and changes the settings of running nodes, through their API.
//!
//! stdout gets only what was asked for; everything else goes to stderr.

#![forbid(unsafe_code)]

mod address;
mod bundle;
mod capture;
mod changes;
mod cli;
mod connection;
mod credentials;
mod dashboard;
mod debug;
mod definitions;
mod descriptions;
mod editing;
mod error;
mod form;
mod known_nodes;
mod nearest;
mod pin;
mod question;
mod rates;
mod redaction;
#[cfg(test)]
mod reference;
mod resource;
mod selection;
mod stderr;
mod table;
mod template;
mod verbs;

use cli::Cli;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    let cli = Cli::of_program();
    let outcome = match runtime() {
        Ok(runtime) => {
            let outcome = runtime.block_on(verbs::run(cli));
            // A name that is being looked up must not keep the program.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(error::Error::failed("cannot start").caused_by(&error)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            stderr::print_line(&error);
            error.exit_code()
        }
    }
}

/// The connection has a thread of its own. It answers the node while another waits for a reader of
/// stdout that pauses, such as a pager: the node closes a connection that is silent.
fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_connection_goes_on_while_stdout_is_not_read() {
        runtime().unwrap().block_on(async {
            let (sender, received) = channel();
            tokio::spawn(async move { sender.send(()).unwrap() });
            // A write to a full pipe blocks like this.
            received.recv_timeout(Duration::from_secs(20)).unwrap();
        });
    }
}
