//! The whole rest of the root: one entry a path.

/// One file, link or folder of the root besides `/bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFile {
    /// The absolute path on the node.
    pub path: String,
    /// Permission bits, without set-uid, set-gid and sticky except on folders. 0o777 for links.
    pub mode: u32,
    /// What is there.
    pub content: Content,
}

/// What stands at a path of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes of this file of the project.
    File(String),
    /// This text.
    Text(String),
    /// A link that points here.
    Symlink(String),
    /// A folder.
    Directory,
    /// Files out of a Debian package: one file, or all regular files of a folder one behind the
    /// other in byte order of their names (as `update-ca-certificates` makes its bundle).
    Debian {
        /// The package, which [`super::Wanted::files`] has too.
        package: String,
        /// The path of the file or folder inside the package, without a leading slash.
        path: String,
    },
}
