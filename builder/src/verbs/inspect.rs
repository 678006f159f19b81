//! `osbuild inspect`: needs no project.

use crate::cli::Common;
use crate::error::Result;
use crate::report::Report;
use crate::ship::audit::inspect::inspect;
use std::path::Path;

/// `osbuild inspect`
pub fn run(common: &Common, report: &Report, file: &Path) -> Result<()> {
    let found = inspect(file)?;
    report.data(if common.json {
        serde_json::to_string_pretty(&found).expect("an inspection always serializes")
    } else {
        found.to_string().trim_end().to_owned()
    });
    Ok(())
}
