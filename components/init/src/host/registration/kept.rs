//! The file on DATA with the names of the labels that requests may have set on the node's object, a
//! line each. Without it, a label that was withdrawn shortly before a reboot would stay there.

use osbuild_failure::{Explain, Outcome};

use crate::data;

/// The file.
const FILE: &str = "node-labels";
/// The maximum number of names: those that requests set, and as many that were withdrawn.
pub const MAX_LABELS: usize = 2 * osbuild_protocol::MAX_LABELS;
/// The maximum length of the file in bytes; that many names are shorter.
const MAX_LENGTH: u64 = 32 << 10;

/// The text of the file; empty if there is none.
pub fn read() -> Outcome<String> {
    let text = data::folder::open()?.read_text(FILE, MAX_LENGTH);
    Ok(text.explain(format_args!("read {FILE} on DATA"))?.unwrap_or_default())
}

/// Writes the file, or removes it if there are no names.
pub fn keep(text: &str) -> Outcome {
    let data = data::folder::open()?;
    let kept = match text {
        "" => data.remove(FILE),
        _ => data.replace(FILE, text.as_bytes(), 0o644),
    };
    kept.explain(format_args!("write {FILE} on DATA"))
}
