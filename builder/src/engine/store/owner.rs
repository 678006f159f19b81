//! The owner of the store. Entries are trusted by their names and end up in nodes, so no other user
//! may be able to write them.

use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Permission bits: the group or others may write.
const WRITABLE: u32 = 0o022;
/// Permission bits: the group or others may enter a folder.
const ENTERED_BY_OTHERS: u32 = 0o011;
/// Permission bit: others may write.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Mode bit: users may rename and remove only their own files (inode(7)).
const STICKY: u32 = 0o1000;

/// The folders whose entries are trusted by their names.
const TRUSTED: [&str; 4] = ["ac", "cas", "memo", "trees"];

/// Makes the folder and its parents with mode 0700, whatever the umask: the folders in it are made
/// with the user's umask. An existing folder without trusted entries gets that mode too, because
/// `cargo ci` makes it for its own caches. Builds of this user may do so at the same time.
///
/// # Errors
/// It cannot be made, or another user writes a trusted entry at the same time.
pub(super) fn make(root: &Path) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    DirBuilder::new().recursive(true).mode(0o700).create(root).at("make the directory", root)?;
    let trusted = || TRUSTED.iter().filter_map(|name| fs::symlink_metadata(root.join(name)).ok());
    let is_ours = fs::metadata(root).at("read", root)?.uid() == own;
    if is_ours && trusted().next().is_none() {
        fs::set_permissions(root, Permissions::from_mode(0o700)).at("write", root)?;
        if trusted().any(|entry| entry.uid() != own) {
            return Err(Error::build(format!(
                "another user has just written to the store `{}`",
                root.display()
            ))
            .hint(format!("look at it, and remove it: ls -la {}", root.display())));
        }
    }
    Ok(())
}

/// Refuses a store of another user, and one that others can change.
///
/// # Errors
/// It is such a store.
pub(super) fn check(root: &Path) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let (link, folder) =
        (fs::symlink_metadata(root).at("read", root)?, fs::metadata(root).at("read", root)?);
    // A link of root is fine: root can do worse.
    if folder.uid() != own || ![own, 0].contains(&link.uid()) {
        let other = if folder.uid() == own { link.uid() } else { folder.uid() };
        let error = Error::build(format!("the store `{}` belongs to another user", root.display()));
        let error = error.cause(format!(
            "its owner has the user ID {other} and you have {own}: its content would be built \
                 into nodes"
        ));
        return Err(error.hint(
            "build as that user, or choose a folder of your own: \
             export XDG_CACHE_HOME=\"$HOME/.cache\"",
        ));
    }
    if folder.mode() & WRITABLE != 0 {
        let error = Error::build(format!("others may write to the store `{}`", root.display()));
        return Err(error.cause(mode(&folder)).hint(format!(
            "check that only you have written to it, then: chmod 700 {}",
            root.display()
        )));
    }
    check_trusted(root, own)?;
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

/// Refuses a folder of entries that others can change although they cannot change the root.
fn check_trusted(root: &Path, own: u32) -> Result<()> {
    let is_closed = fs::metadata(root).at("read", root)?.mode() & ENTERED_BY_OTHERS == 0;
    for path in TRUSTED.map(|name| root.join(name)) {
        let Ok(folder) = fs::metadata(&path) else { continue };
        let shown = path.display();
        if folder.uid() != own {
            let error = Error::build(format!("`{shown}` in the store belongs to another user"));
            return Err(error.hint(format!("look at it, and remove it: ls -la {shown}")));
        }
        if !is_closed && folder.mode() & WRITABLE != 0 {
            let error = Error::build(format!("others may write to `{shown}` in the store"));
            return Err(error.cause(mode(&folder)).hint(format!(
                "check that only you have written to it, then: chmod 700 {}",
                root.display()
            )));
        }
    }
    Ok(())
}

fn mode(folder: &Metadata) -> String {
    format!("its mode is {:04o}", folder.mode() & 0o7777)
}
