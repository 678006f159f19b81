//! A file of a public key, certificate, root or revocations, which everybody may read.

use crate::engine::fs_error::{IoContext, sync_directory};
use crate::error::Result;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes the file, or replaces it as a whole.
pub(super) fn write_public(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".unfinished");
    let unfinished = path.with_file_name(name);
    fs::write(&unfinished, bytes)
        .and_then(|()| fs::set_permissions(&unfinished, Permissions::from_mode(0o644)))
        .at("write", &unfinished)?;
    put(&unfinished, path)
}

/// Renames a file into its place once it is on the medium, and returns once its name is there, too:
/// without a valid root of trust there is no next one, and a lost revocation trusts a stolen key.
pub(super) fn put(unfinished: &Path, path: &Path) -> Result<()> {
    let on_medium = File::open(unfinished).and_then(|file| file.sync_all());
    on_medium.and_then(|()| fs::rename(unfinished, path)).at("write", path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}
