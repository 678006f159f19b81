//! Names in files on DATA.

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;

use crate::{data, name};

/// The maximum length of a file in bytes; a name is shorter.
const MAX_LENGTH: u64 = 300;

/// The name in a file, if it has one.
pub fn kept(file: &str) -> Option<String> {
    kept_in(&data::folder::open().ok()?, file)
}

/// The same below another folder than DATA.
pub fn kept_in(folder: &Folder, file: &str) -> Option<String> {
    let text = folder.read_text(file, MAX_LENGTH).ok()??;
    name::check(text.trim()).ok()
}

/// Keeps a name in a file, flushed to the disk.
pub fn keep(file: &str, name: &str) -> Outcome {
    keep_in(&data::folder::open()?, file, name)
}

/// The same below another folder than DATA.
pub fn keep_in(folder: &Folder, file: &str, name: &str) -> Outcome {
    folder
        .replace(file, format!("{name}\n").as_bytes(), 0o644)
        .explain(format_args!("write {file} on DATA"))
}
