//! The `osbuild` program: reads the command line and hands it to the verb.

use clap::Parser;
use osbuild::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    osbuild::verbs::main(Cli::parse())
}
