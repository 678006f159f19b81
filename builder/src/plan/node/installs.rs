//! The node that a USB stick installs.

use super::{Content, RootFile};
use osbuild_abi::paths;

/// The section `[installs]` of a recipe. The recipe's own node runs in memory, and changes no disk
/// except the one that it installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installs {
    /// The recipe of the node that is installed.
    pub recipe: String,
    /// The installer's settings unless the stick is edited: a file of the project.
    pub settings: String,
}

impl Installs {
    /// The file with the settings in the root of the node.
    pub fn file(&self) -> RootFile {
        RootFile {
            path: paths::INSTALL_SETTINGS.to_owned(),
            mode: 0o644,
            content: Content::File(self.settings.clone()),
        }
    }
}
