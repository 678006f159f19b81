//! The rest of the root: one entry for each path.

use super::file_package::FilePackage;
use crate::plan::lock::Pins;
use crate::plan::{LockState, Locked, Unlocked};

/// A file, link or folder of the root outside `/bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFile<L: LockState = Unlocked> {
    /// The absolute path on the node.
    pub path: String,
    /// Permission bits, without set-user-ID and set-group-ID, and sticky only for folders; 0o777
    /// for links.
    pub mode: u32,
    /// Its content.
    pub content: Content<L>,
}

/// The content of a path of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<L: LockState = Unlocked> {
    /// The bytes of this file of the project.
    File(String),
    /// This text.
    Text(String),
    /// A link to this target.
    Symlink(String),
    /// A folder.
    Directory,
    /// Files of a Debian package: one file, or all regular files of a folder, concatenated in the
    /// order of their paths, which are compared name by name. `update-ca-certificates` makes its
    /// bundle in a similar way.
    Debian {
        /// The package, which is also in [`crate::plan::Requirements::files`].
        package: FilePackage<L>,
        /// The path of the file or folder inside the package, without a leading slash.
        path: String,
    },
    /// An AppArmor profile as the kernel takes it.
    AppArmorProfile {
        /// The file of the project with its text.
        source: String,
        /// The package with the program that compiles it, of the build machine's architecture.
        parser: FilePackage<L>,
    },
}

impl RootFile {
    /// The file with its package from a lock.
    pub(in crate::plan) fn lock(self, pins: &Pins<'_>) -> RootFile<Locked> {
        let content = match self.content {
            Content::File(source) => Content::File(source),
            Content::Text(text) => Content::Text(text),
            Content::Symlink(target) => Content::Symlink(target),
            Content::Directory => Content::Directory,
            Content::Debian { package, path } => {
                Content::Debian { package: package.lock(pins), path }
            }
            Content::AppArmorProfile { source, parser } => {
                Content::AppArmorProfile { source, parser: parser.lock_program(pins) }
            }
        };
        RootFile { path: self.path, mode: self.mode, content }
    }
}
