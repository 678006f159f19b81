//! Small files below `/run` that `init` writes and other programs read.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;

/// The maximum length of a file that is read, in bytes.
const MAX_LENGTH: u64 = 256 << 10;

/// The folder of all of them.
const MEMORY: &str = "/run";
/// The folder in it for entries that were in the way.
const ASIDE: &str = ".aside";

/// Replaces or removes a file that only root may read.
pub fn set(path: &str, text: Option<&str>) -> Outcome {
    match text {
        Some(text) => write_with_mode(path, text, 0o600),
        None => {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            folder(parent)
                .and_then(|folder| folder.remove(name))
                .explain(format_args!("remove {path}"))
        }
    }
}

/// The text of the file at `path`, which is below [`MEMORY`]; none if there is no such regular file
/// of a sensible length. A pod with the host's `/run` may have put anything there, so this never
/// blocks.
pub fn read(path: &str) -> Option<String> {
    read_up_to(path, MAX_LENGTH).ok()?
}

/// Does the same for a file of at most `max` bytes.
///
/// # Errors
/// The entry is no such file, or cannot be read.
pub fn read_up_to(path: &str, max: u64) -> io::Result<Option<String>> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    folder(parent)?.read_text(name, max)
}

/// Whether the file at `path` is one that root alone may read.
pub fn is_private(path: &str) -> bool {
    let metadata = std::fs::symlink_metadata(path);
    metadata.is_ok_and(|found| found.is_file() && found.mode() & 0o077 == 0 && found.uid() == 0)
}

/// Replaces the file at `path`, which is below [`MEMORY`], and makes the folders above it.
pub fn write(path: &str, text: &str) -> Outcome {
    write_with_mode(path, text, 0o644)
}

fn write_with_mode(path: &str, text: &str, mode: u32) -> Outcome {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    folder(parent)
        .and_then(|folder| folder.replace(name, text.as_bytes(), mode))
        .explain(format_args!("write {path}"))
}

/// Opens the folder at `path`, which is below [`MEMORY`], and makes what is missing of the path. A
/// folder that exists is not changed: the kubelet watches one of them.
pub fn folder(path: &str) -> io::Result<Folder> {
    let below = path.trim_start_matches(MEMORY).split('/').filter(|part| !part.is_empty());
    let memory = Folder::open(Path::new(MEMORY), ASIDE)?;
    below.into_iter().try_fold(memory, |folder, part| {
        folder.existing_folder(part).or_else(|_| folder.folder(part, 0o755))
    })
}
