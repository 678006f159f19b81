//! The git status of a project.

use super::client::Client;
use std::path::Path;

/// Whether the project has uncommitted changes or untracked files. `None` if git fails: it is not
/// installed, the project is not a repository, or it belongs to another user.
pub fn is_dirty(project: &Path) -> Option<bool> {
    let status = [
        "-c",
        "core.fsmonitor=false",
        "status",
        "--porcelain",
        "--untracked-files=normal",
        "--",
        ".",
    ];
    // A status request must not lock the repository.
    let git = Client::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(status).within(project);
    git.run().ok().map(|changes| !changes.is_empty())
}
