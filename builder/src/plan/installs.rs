//! What a stick installs.

use super::{Content, RootFile};
use osbuild_abi::paths;

/// The section `[installs]` of a recipe. Its node is in memory alone, and changes no disk but the
/// one that it installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installs {
    /// The recipe of the node that is installed.
    pub recipe: String,
    /// What the installer does unless the stick is edited: a file of the project.
    pub settings: String,
}

impl Installs {
    /// What the root of the node holds for it, besides the image.
    pub(super) fn file(&self) -> RootFile {
        RootFile {
            path: paths::INSTALL_SETTINGS.to_owned(),
            mode: 0o644,
            content: Content::File(self.settings.clone()),
        }
    }
}
