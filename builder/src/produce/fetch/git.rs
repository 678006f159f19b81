//! The git status of a project.

use super::client::Client;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Whether the project has uncommitted changes or untracked files, except in the folders `beside`,
/// which need not be in the project or exist. `None` if git fails: it is not installed, the project
/// is not a repository, or it belongs to another user.
pub fn is_dirty(project: &Path, beside: &[&Path]) -> Option<bool> {
    let status = [
        "-c",
        "core.fsmonitor=false",
        "status",
        "--porcelain",
        "--untracked-files=normal",
        "--",
        ".",
    ];
    let root = project.canonicalize().ok()?;
    let within = beside.iter().filter_map(|folder| within(&root, folder));
    let excluded = within.map(|folder| {
        let mut pattern = OsString::from(":(exclude,literal)");
        pattern.push(folder);
        pattern
    });
    // A status request must not lock the repository.
    let git = Client::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(status).args(excluded);
    git.within(project).run().ok().map(|changes| !changes.is_empty())
}

/// The path of a folder below `root`, seen from there.
fn within(root: &Path, folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let below = folder.strip_prefix(root).ok()?;
    (!below.as_os_str().is_empty()).then(|| below.to_owned())
}
