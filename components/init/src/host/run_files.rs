//! Small files below `/run` that `init` writes and other programs read.

use std::io::ErrorKind;
use std::path::Path;

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;

/// The folder of all of them.
const MEMORY: &str = "/run";
/// The folder in it for entries that were in the way.
const ASIDE: &str = ".aside";

/// Replaces or removes a file that only root may read.
pub fn set(path: &str, text: Option<&str>) -> Outcome {
    match text {
        Some(text) => write_with_mode(path, text, 0o600),
        None => match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).explain(format_args!("remove {path}"))
            }
            _ => Ok(()),
        },
    }
}

/// Replaces the file at `path`, which is below [`MEMORY`], and makes the folders above it.
pub fn write(path: &str, text: &str) -> Outcome {
    write_with_mode(path, text, 0o644)
}

fn write_with_mode(path: &str, text: &str, mode: u32) -> Outcome {
    let write = || -> std::io::Result<()> {
        let mut parts: Vec<&str> =
            path.trim_start_matches(MEMORY).trim_start_matches('/').split('/').collect();
        let name = parts.pop().unwrap_or_default();
        let memory = Folder::open(Path::new(MEMORY), ASIDE)?;
        parts.iter().try_fold(memory, |folder, part| folder.folder(part, 0o755))?.replace(
            name,
            text.as_bytes(),
            mode,
        )
    };
    write().explain(format_args!("write {path}"))
}
