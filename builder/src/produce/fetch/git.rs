//! What git says of a project.

use super::client::Client;
use std::path::Path;

/// Whether files of the project differ from what is checked out, or are neither in it nor ignored.
/// None if git cannot say: it is not installed, this is no repository, or it belongs to somebody
/// else.
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
    // Whoever only asks takes no lock from a git that works here.
    let git = Client::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(status).within(project);
    git.run().ok().map(|changes| !changes.is_empty())
}
