//! The files with the environment: one that pods read, and one that the child `init kubelet-config`
//! writes.

use osbuild_abi::paths::PROXY_ENVIRONMENT;
use osbuild_failure::Outcome;
use osbuild_protocol::ProxyExclusion;

use super::values::Environment;
use crate::host::run_files;

/// The file with what the cluster adds to what is reached without the proxy, an entry a line.
const CLUSTER: &str = "/run/osbuild/kubelet/no-proxy";
/// The maximum number of these entries.
const MAX_ENTRIES: usize = 8;

/// Writes what pods read, unless it is there.
pub fn write(environment: &Environment) -> Outcome {
    if are(environment) {
        return Ok(());
    }
    match text(environment) {
        Some(text) => run_files::write(PROXY_ENVIRONMENT, &text),
        None => run_files::set(PROXY_ENVIRONMENT, None),
    }
}

/// Whether pods read this.
pub fn are(environment: &Environment) -> bool {
    run_files::read(PROXY_ENVIRONMENT) == text(environment)
}

/// The variables, each on a line; none without a proxy.
fn text(environment: &Environment) -> Option<String> {
    let lines = environment.variables.iter().map(|(name, value)| format!("{name}={value}\n"));
    Some(lines.collect::<String>()).filter(|text| !text.is_empty())
}

/// Keeps what the cluster adds, for PID 1.
pub fn keep_cluster(entries: &[ProxyExclusion]) -> Outcome {
    let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    run_files::set(CLUSTER, (!lines.is_empty()).then_some(lines.as_str()))
}

/// What the cluster adds, as the child has found it last.
pub fn cluster() -> Vec<ProxyExclusion> {
    let text = run_files::read(CLUSTER).unwrap_or_default();
    let entries = text.lines().filter_map(|line| ProxyExclusion::parse(line).ok());
    entries.take(MAX_ENTRIES).collect()
}
