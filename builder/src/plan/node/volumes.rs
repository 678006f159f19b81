//! Which documents on volumes configure the node.

use super::{Content, RootFile};
use osbuild_abi::paths;

/// The section `[volumes]` of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volumes {
    /// Those that the release key of a root of trust has signed: a file of the project, which the
    /// plan does not read.
    Signed(String),
    /// All of them.
    Unsigned,
}

impl Volumes {
    /// The file in the root of the node.
    pub fn file(&self) -> RootFile {
        let (path, content) = match self {
            Self::Signed(root) => (paths::VOLUMES_ROOT, Content::File(root.clone())),
            Self::Unsigned => (paths::VOLUMES_UNSIGNED, Content::Text(String::new())),
        };
        RootFile { path: path.to_owned(), mode: 0o644, content }
    }
}
