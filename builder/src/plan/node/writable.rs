//! Writable paths that a recipe declares.

use super::{Content, RootFile};
use osbuild_abi::declared::{self, Declared};
use osbuild_abi::paths;

/// One entry of the section `[writable]` of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritablePath {
    /// The absolute path on the node.
    pub path: String,
    /// The storage of its content.
    pub backing: Backing,
    /// Permission bits of the folder when it is made.
    pub mode: u32,
    /// Whether the host can execute a program on it.
    pub exec: bool,
}

/// The storage of a declared path's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A folder of this name on DATA, in the folder for declared paths.
    Data(String),
    /// Memory, up to this many MiB.
    Memory(u32),
}

impl WritablePath {
    /// The path in the form that the node reads.
    pub fn declared(&self) -> Declared<'_> {
        let backing = match &self.backing {
            Backing::Data(folder) => declared::Backing::Data(folder),
            Backing::Memory(mib) => declared::Backing::Memory(*mib),
        };
        Declared { path: &self.path, backing, mode: self.mode, exec: self.exec }
    }

    /// The mount point: an empty folder of the root.
    pub fn mount_point(&self) -> RootFile {
        RootFile { path: self.path.clone(), mode: self.mode, content: Content::Directory }
    }
}

/// The file of the root in which `init` reads these paths; `None` if there are none.
pub fn list(paths: &[WritablePath]) -> Option<RootFile> {
    let text: String = paths.iter().map(|path| format!("{}\n", path.declared())).collect();
    (!paths.is_empty()).then(|| RootFile {
        path: paths::WRITABLE_PATHS.to_owned(),
        mode: 0o644,
        content: Content::Text(text),
    })
}
