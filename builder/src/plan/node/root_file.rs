//! The rest of the root: one entry for each path.

/// A file, link or folder of the root outside `/bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFile {
    /// The absolute path on the node.
    pub path: String,
    /// Permission bits, without set-user-ID and set-group-ID, and sticky only for folders; 0o777
    /// for links.
    pub mode: u32,
    /// Its content.
    pub content: Content,
}

/// The content of a path of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes of this file of the project.
    File(String),
    /// This text.
    Text(String),
    /// A link to this target.
    Symlink(String),
    /// A folder.
    Directory,
    /// Files of a Debian package: one file, or all regular files of a folder, concatenated in byte
    /// order of their names (as `update-ca-certificates` makes its bundle).
    Debian {
        /// The package, which is also in [`crate::plan::Requirements::files`].
        package: String,
        /// The path of the file or folder inside the package, without a leading slash.
        path: String,
    },
}
