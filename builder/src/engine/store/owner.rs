//! Whose a store is. All that is in it is believed by name, and goes into nodes.

use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Others may write.
const WRITABLE: u32 = 0o022;
/// All others may write.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Of what is in a folder, nobody may rename or remove what is somebody else's.
const STICKY: u32 = 0o1000;

/// What is believed by name.
const BELIEVED: [&str; 4] = ["ac", "cas", "memo", "trees"];

/// Makes the folder, and those above it, if it is not there, such that nobody else can look into
/// it, whatever the umask: the folders in it are made with the user's umask. One in which there is
/// nothing yet that would be believed gets the same mode, as `cargo ci` makes it for what it
/// compiles.
pub(super) fn make(root: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(root).at("make the directory", root)?;
    let is_empty = || BELIEVED.iter().all(|name| !root.join(name).exists());
    let is_ours = fs::metadata(root).at("read", root)?.uid() == rustix::process::geteuid().as_raw();
    if is_ours && is_empty() {
        fs::set_permissions(root, Permissions::from_mode(0o700)).at("write", root)?;
        if !is_empty() {
            return Err(Error::build(format!(
                "somebody else has just written to the store `{}`",
                root.display()
            ))
            .hint(format!("look what it is, and remove it: ls -la {}", root.display())));
        }
    }
    Ok(())
}

/// Refuses a store that is somebody else's, or that others can change.
pub(super) fn check(root: &Path) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let (link, folder) =
        (fs::symlink_metadata(root).at("read", root)?, fs::metadata(root).at("read", root)?);
    // Root's link was made by somebody who could do worse.
    if folder.uid() != own || ![own, 0].contains(&link.uid()) {
        let other = if folder.uid() == own { link.uid() } else { folder.uid() };
        let error = Error::build(format!("the store `{}` belongs to another user", root.display()));
        let error =
            error.cause(format!("its owner has the number {other}, and you have {own}: what it holds would be built into nodes"));
        return Err(error.hint("build as that user, or name a folder of your own: export XDG_CACHE_HOME=\"$HOME/.cache\""));
    }
    if folder.mode() & WRITABLE != 0 {
        let error = Error::build(format!("others may write to the store `{}`", root.display()));
        return Err(error.cause(mode(&folder)).hint(format!(
            "see that it holds what you put there, then: chmod 700 {}",
            root.display()
        )));
    }
    let real = fs::canonicalize(root).at("read", root)?;
    let parent = real.parent().unwrap_or(&real);
    let above = fs::metadata(parent).at("read", parent)?;
    if above.mode() & WRITABLE_BY_ALL != 0 && above.mode() & STICKY == 0 {
        let error = Error::build(format!("others may replace the store `{}`", root.display()));
        return Err(error
            .cause(format!("of `{}`, {}", parent.display(), mode(&above)))
            .hint(format!("chmod o-w {}", parent.display())));
    }
    Ok(())
}

fn mode(folder: &Metadata) -> String {
    format!("its mode is {:04o}", folder.mode() & 0o7777)
}
