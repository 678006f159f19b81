//! The configuration of settings, and what `init` learns of it.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use osbuild_abi::paths::{CONTROL_PLANE_CONFIGURATION, CONTROL_PLANE_ERROR, CONTROL_PLANE_MADE};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::ControlPlane;

use crate::replace::replace;

/// How soon to look again at a file that another program has changed.
const INTERVAL: Duration = Duration::from_millis(100);

/// The text of the `ClusterConfiguration` of settings. `None` if no source has one. If another
/// program has written anything else, it waits for `init`, which writes the file again.
pub fn wanted() -> Option<String> {
    loop {
        let text = fs::read_to_string(CONTROL_PLANE_CONFIGURATION).ok()?;
        if ControlPlane::parse(&text).is_ok_and(|plane| plane.as_str() == text) {
            return Some(text);
        }
        sleep(INTERVAL);
    }
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
