//! Directories that are unpacked once and then only read: sandbox roots and toolchains.

use super::results::read_sealed;
use super::{Store, note_use};
use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

impl Store {
    /// The directory that `key` stands for. When it is not there yet, `fill` fills an empty
    /// directory, which then gets its name; `key` must stand for everything that `fill` depends on.
    /// Nobody may write to it afterwards.
    pub fn tree(&self, key: &Digest, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        if let Some(root) = self.find_tree(key) {
            return Ok(root);
        }
        let _lock = self.lock(&format!("tree-{key}"), || Ok(()))?;
        if let Some(root) = self.find_tree(key) {
            return Ok(root);
        }
        let scratch = self.scratch()?;
        let root = scratch.path().join("root");
        fs::create_dir(&root).at("make the directory", &root)?;
        fill(&root)?;
        self.write_sealed(&scratch.path().join("stamp"), content_of(&root)?.hash())?;
        let directory = File::open(&root).at("open", &root)?;
        rustix::fs::syncfs(&directory).or_build(|| format!("cannot flush `{}`", root.display()))?;
        self.place_tree(key, scratch.path())
    }

    /// The directory that `key` stands for, if it was unpacked.
    pub fn find_tree(&self, key: &Digest) -> Option<PathBuf> {
        let tree = self.tree_path(key);
        let stamp = tree.join("stamp");
        note_use(&stamp, &fs::metadata(&stamp).ok()?);
        // A collection that took it away before the note goes on; one that sees the note gives it
        // back.
        stamp.exists().then(|| tree.join("root"))
    }

    /// Whether an unpacked tree still holds what it held when it was made.
    pub(super) fn tree_is_sound(&self, tree: &Path) -> bool {
        let stamp = read_sealed(&tree.join("stamp"));
        stamp.is_some_and(|stamp| {
            content_of(&tree.join("root")).is_ok_and(|content| content.hash().as_slice() == stamp)
        })
    }

    fn place_tree(&self, key: &Digest, made: &Path) -> Result<PathBuf> {
        let tree = self.tree_path(key);
        // A tree without a stamp is one that somebody has damaged by hand.
        if tree.exists() {
            let away = self.inner.session.fresh("tree");
            fs::rename(&tree, &away).at("move away", &tree)?;
        }
        fs::rename(made, &tree).at("write", &tree)?;
        Ok(tree.join("root"))
    }

    fn tree_path(&self, key: &Digest) -> PathBuf {
        self.root().join("trees").join(key.hex())
    }
}

/// The digest of all that is in a directory: names, content, links and which files can be executed.
fn content_of(root: &Path) -> Result<Digest> {
    Ok(InputTree::scan(root, &mut Digest::of_file)?.digest())
}
