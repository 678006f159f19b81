//! `osbuild completions`: needs no project.

use crate::cli::Cli;
use crate::report::Report;
use clap::CommandFactory;
use clap_complete::Shell;

/// `osbuild completions`
pub fn run(report: &Report, shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "osbuild", &mut script);
    report.data(String::from_utf8_lossy(&script).trim_end());
}
