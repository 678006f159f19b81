//! The settings of the node document. PID 1 reads no TOML: `init kubelet-config` writes them to a
//! file, one on each line.

use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::Setting;

use super::kept;
use crate::host::run_files;

/// The file.
const FILE: &str = "/run/osbuild/document-settings";

/// Writes the file.
pub fn write(settings: &[Setting]) -> Outcome {
    let lines: String = settings.iter().map(|setting| format!("{}\n", setting.line())).collect();
    run_files::set(FILE, (!settings.is_empty()).then_some(lines.as_str()))
}

/// The text of the file, which is missing if there are no settings.
///
/// # Errors
/// There is something else in its place, or it cannot be read.
pub fn read() -> Outcome<String> {
    let text = run_files::read_up_to(FILE, kept::MAX_LENGTH);
    text.map(Option::unwrap_or_default).explain(format_args!("read {FILE}"))
}
