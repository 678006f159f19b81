//! Writable paths that a recipe declares.

use super::{Content, RootFile};
use osbuild_abi::declared::{self, Declared};
use osbuild_abi::paths;

/// One entry of the section `[writable]` of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritablePath {
    /// The absolute path on the node.
    pub path: String,
    /// What is behind it.
    pub backing: Backing,
    /// Permission bits of the folder when it is made.
    pub mode: u32,
    /// Whether the host can execute a program on it.
    pub exec: bool,
}

/// What is behind a declared path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// This folder of DATA's folder for declared paths.
    Data(String),
    /// Memory, at most this many MiB.
    Memory(u32),
}

impl WritablePath {
    /// The same, as the node reads it.
    pub fn declared(&self) -> Declared<'_> {
        let backing = match &self.backing {
            Backing::Data(folder) => declared::Backing::Data(folder),
            Backing::Memory(mib) => declared::Backing::Memory(*mib),
        };
        Declared { path: &self.path, backing, mode: self.mode, exec: self.exec }
    }

    /// The empty folder of the root that is mounted on.
    pub(super) fn mount_point(&self) -> RootFile {
        RootFile { path: self.path.clone(), mode: self.mode, content: Content::Directory }
    }
}

/// What the root holds for these, none for none: the list that `init` reads.
pub(super) fn list(paths: &[WritablePath]) -> Option<RootFile> {
    let text: String = paths.iter().map(|path| format!("{}\n", path.declared())).collect();
    (!paths.is_empty()).then(|| RootFile {
        path: paths::WRITABLE_PATHS.to_owned(),
        mode: 0o644,
        content: Content::Text(text),
    })
}
