//! The `osbuild` program: reads the command line and runs the verb.

use clap::Parser;
use osbuild::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    osbuild::verbs::main(Cli::parse())
}
