//! Host names and node names.

use std::path::Path;

pub use osbuild_protocol::host_name::check;

/// The name in a file that `init` has written, if it has one.
pub fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().and_then(|text| check(text.trim()).ok())
}
