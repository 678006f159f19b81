//! A file of a public key, certificate or root, which everybody may read.

use crate::engine::fs_error::IoContext;
use crate::error::Result;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes the file.
pub(super) fn write_public(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o644)))
        .at("write", path)
}
