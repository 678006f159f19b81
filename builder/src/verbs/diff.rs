//! `osbuild diff`: needs no project.

use crate::cli::Common;
use crate::error::{Error, Result};
use crate::report::Report;
use crate::ship::audit::diff::diff;
use std::path::Path;
use std::process::ExitCode;

/// The exit code when the files differ, as in diff(1) and cmp(1).
const DIFFERS: u8 = 1;

/// `osbuild diff`
pub fn run(common: &Common, report: &Report, a: &Path, b: &Path) -> Result<ExitCode> {
    let found = diff(a, b)?;
    report.data(if common.json {
        serde_json::to_string_pretty(&found).expect("a difference always serializes")
    } else {
        found.to_string()
    });
    // A full disk must not look like a difference either.
    report.all_written().map_err(Error::of_usage)?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}
