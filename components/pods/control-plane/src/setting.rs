//! The configuration of settings, and what `init` learns of it.

use std::fs;
use std::path::Path;

use osbuild_abi::paths::{CONTROL_PLANE_CONFIGURATION, CONTROL_PLANE_ERROR, CONTROL_PLANE_MADE};
use osbuild_failure::{Explain, Failure, Outcome};

use crate::replace::replace;

/// The text of the `ClusterConfiguration` of settings. `None` if no source has one.
pub fn wanted() -> Option<String> {
    fs::read_to_string(CONTROL_PLANE_CONFIGURATION).ok()
}

/// Reports that the control plane is made with this configuration.
///
/// # Errors
/// The files cannot be written.
pub fn report_made(text: Option<&str>) -> Outcome {
    remove(CONTROL_PLANE_ERROR);
    match text {
        Some(text) => replace(Path::new(CONTROL_PLANE_MADE), text)
            .explain(format_args!("write {CONTROL_PLANE_MADE}")),
        None => {
            remove(CONTROL_PLANE_MADE);
            Ok(())
        }
    }
}

/// Reports why it is not made with the configuration of settings, if there is one.
///
/// # Errors
/// The file cannot be written.
pub fn report_failure(failure: &Failure) -> Outcome {
    if wanted().is_none() {
        return Ok(());
    }
    replace(Path::new(CONTROL_PLANE_ERROR), &failure.to_string())
        .explain(format_args!("write {CONTROL_PLANE_ERROR}"))
}

/// Removes a file that may not be there.
fn remove(file: &str) {
    let _ = fs::remove_file(file);
}
