//! `CniStatuses.osbuild`: how pods get a network, as `init` finds it.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{NODE, column, names, time};
use osbuild_cosi::v1::CniStatusSpec;
use osbuild_protocol::{CniState, NodeStatus};

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
    let spec = CniStatusSpec {
        file,
        name,
        cni_version: version,
        plugins,
        missing_plugins: missing,
        changed: if changed == 0 { String::new() } else { time(changed) },
        error,
    };
    let mut rows = Rows::at_most(TYPE.max_count);
    rows.insert(0, NODE.to_owned(), spec);
    Ok(rows)
}
