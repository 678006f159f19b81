//! The files with the environment: those that pods and daemons read, and one that the child `init
//! kubelet-config` writes.

use osbuild_abi::paths::{PROXY_ENVIRONMENT, TRUSTED_ROOTS};
use osbuild_failure::Outcome;
use osbuild_protocol::ProxyExclusion;

use super::values::Environment;
use crate::host::run_files;

/// The file with what the cluster adds to what is reached without the proxy, an entry a line.
const CLUSTER: &str = "/run/osbuild/kubelet/no-proxy";
/// The maximum number of these entries.
const MAX_ENTRIES: usize = 8;

/// Writes what other programs read, as far as it is not there.
pub fn write(environment: &Environment) -> Outcome {
    missing(environment).try_for_each(|(path, text)| match text {
        Some(text) => run_files::write(path, &text),
        None => run_files::set(path, None),
    })
}

/// The files that have another text, or should not be there, each with its text.
pub fn missing(environment: &Environment) -> impl Iterator<Item = (&'static str, Option<String>)> {
    let lines = environment.proxy.iter().map(|(name, value)| format!("{name}={value}\n"));
    let files = [(PROXY_ENVIRONMENT, lines.collect()), (TRUSTED_ROOTS, environment.roots.clone())];
    let files = files.map(|(path, text): (_, String)| (path, Some(text)));
    let files = files.map(|(path, text)| (path, text.filter(|text| !text.is_empty())));
    files.into_iter().filter(|(path, text)| run_files::read(path) != *text)
}

/// Writes the proxy exclusions of the cluster to the file that PID 1 reads.
pub fn keep_cluster(entries: &[ProxyExclusion]) -> Outcome {
    let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    run_files::set(CLUSTER, (!lines.is_empty()).then_some(lines.as_str()))
}

/// The proxy exclusions of the cluster that the child wrote last.
pub fn cluster() -> Vec<ProxyExclusion> {
    let text = run_files::read(CLUSTER).unwrap_or_default();
    let entries = text.lines().filter_map(|line| ProxyExclusion::parse(line).ok());
    entries.take(MAX_ENTRIES).collect()
}
