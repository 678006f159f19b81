//! The file of time servers, one on each line, which the pod `time` reads.

use osbuild_abi::paths::NTP_SERVERS;
use osbuild_failure::Outcome;

use super::run_files;

/// Writes the file, unless it has these servers already.
pub fn apply(servers: &[String]) -> Outcome {
    if observe().as_deref() == Some(servers) {
        return Ok(());
    }
    let text: String = servers.iter().map(|server| format!("{server}\n")).collect();
    run_files::write(NTP_SERVERS, &text)
}

/// The servers in the file, if it can be read.
pub fn observe() -> Option<Vec<String>> {
    run_files::read(NTP_SERVERS).map(|text| text.lines().map(str::to_owned).collect())
}
