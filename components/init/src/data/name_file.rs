//! A name that is kept in a file on DATA.

use osbuild_failure::{Explain, Outcome};

use crate::{data, name};

/// Bytes of the longest file that is read; a name has fewer.
const MAX_LENGTH: u64 = 300;

/// The name in a file on DATA, if it has one.
pub fn kept(file: &str) -> Option<String> {
    let text = data::folder::open().ok()?.read_text(file, MAX_LENGTH).ok()??;
    name::check(text.trim()).ok()
}

/// Keeps a name in a file on DATA.
pub fn keep(file: &str, name: &str) -> Outcome {
    data::folder::open()?
        .replace(file, format!("{name}\n").as_bytes(), 0o644)
        .explain(format_args!("write {file} on DATA"))
}
