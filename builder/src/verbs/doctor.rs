//! `osbuild doctor`: needs no project.

use super::consent;
use crate::cli::Common;
use crate::error::Result;
use crate::host;
use crate::plan::Architecture;
use crate::report::Report;

/// `osbuild doctor`
pub fn run(common: &Common, report: &Report, fix: bool) -> Result<()> {
    let mut tools = [host::for_steps(), host::for_sources(), host::for_machine()].concat();
    for tool in Architecture::ALL.into_iter().flat_map(|a| host::for_run(a, true, true)) {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    host::doctor(report, &tools, fix.then(|| consent(common)), common.json)
}
