//! Names in files on DATA.

use osbuild_failure::{Explain, Outcome};

use crate::{data, name};

/// The maximum length of a file in bytes; a name is shorter.
const MAX_LENGTH: u64 = 300;

/// The name in a file, if it has one.
pub fn kept(file: &str) -> Option<String> {
    let text = data::folder::open().ok()?.read_text(file, MAX_LENGTH).ok()??;
    name::check(text.trim()).ok()
}

/// Keeps a name in a file, flushed to the disk.
pub fn keep(file: &str, name: &str) -> Outcome {
    data::folder::open()?
        .replace(file, format!("{name}\n").as_bytes(), 0o644)
        .explain(format_args!("write {file} on DATA"))
}
