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
mod table;
mod template;
mod verbs;

use clap::Parser;
use cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
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
            eprintln!("{error}");
            error.exit_code()
        }
    }
}
