//! `CniStatuses.osbuild`: how pods get a network, as `init` finds it.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{NODE, column, names};
use osbuild_cosi::v1::CniStatusSpec;
use osbuild_protocol::{CniState, NodeStatus};
use prost_types::Timestamp;

pub const TYPE: ObservedType = ObservedType {
    names: names("CniStatuses", "CniStatus"),
    columns: &[
        column("File", "{.file}"),
        column("Name", "{.name}"),
        column("Plugins", "{.plugins[:]}"),
        column("Changed", "{.changed}"),
        column("Error", "{.error}"),
    ],
    max_count: 1,
};

/// The spec.
///
/// # Errors
/// `init` has not looked, as it does after the first request, or could not.
pub fn rows(status: &NodeStatus) -> Result<Rows<CniStatusSpec>, String> {
    let state = status.cni.as_ref().ok_or("init has not looked at the network configuration")?;
    let CniState { file, name, version, plugins, missing, changed, error } = state.clone();
    let seconds = i64::try_from(changed).ok().filter(|seconds| *seconds > 0);
    let changed = seconds.map(|seconds| Timestamp { seconds, nanos: 0 }.to_string());
    let spec = CniStatusSpec {
        file,
        name,
        cni_version: version,
        plugins,
        missing_plugins: missing,
        changed: changed.unwrap_or_default(),
        error,
    };
    let mut rows = Rows::at_most(TYPE.max_count);
    rows.insert(0, NODE.to_owned(), spec);
    Ok(rows)
}
