//! Trees: directories that are unpacked once and then only read, such as sandbox roots and
//! toolchains.

use super::results::read_sealed;
use super::{Store, note_use};
use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

impl Store {
    /// The tree `key`. If it does not exist, `fill` fills an empty directory that becomes the tree;
    /// `key` must cover everything that `fill` depends on. A tree must not be changed.
    ///
    /// # Errors
    /// The error of `fill`, or the store cannot be written.
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

    /// The tree `key`, if it exists.
    pub fn find_tree(&self, key: &Digest) -> Option<PathBuf> {
        let tree = self.tree_path(key);
        let stamp = tree.join("stamp");
        note_use(&stamp, &fs::metadata(&stamp).ok()?).then(|| tree.join("root"))
    }

    /// The path that the tree `key` has or will have.
    pub fn tree_root(&self, key: &Digest) -> PathBuf {
        self.tree_path(key).join("root")
    }

    /// The files of the tree `key`, by reading them all.
    ///
    /// # Errors
    /// The store does not have the tree, or its content is not the one with which it was made.
    pub fn scan_tree(&self, key: &Digest) -> Result<InputTree> {
        let tree = self.tree_path(key);
        let found = InputTree::scan(&tree.join("root"), &mut Digest::of_file)?;
        match read_sealed(&tree.join("stamp")) {
            Some(stamp) if found.digest().hash().as_slice() == stamp => Ok(found),
            _ => Err(Error::digest(format!("the unpacked folder `{}` is damaged", tree.display()))
                .hint("cargo osbuild clean --damaged")),
        }
    }

    /// Whether a tree has the content with which it was made.
    pub(super) fn tree_is_sound(&self, tree: &Path) -> bool {
        let stamp = read_sealed(&tree.join("stamp"));
        stamp.is_some_and(|stamp| {
            content_of(&tree.join("root")).is_ok_and(|content| content.hash().as_slice() == stamp)
        })
    }

    fn place_tree(&self, key: &Digest, made: &Path) -> Result<PathBuf> {
        let tree = self.tree_path(key);
        // A tree without a stamp is damaged.
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

/// The digest of a directory tree: names, contents, links, and which files are executable.
fn content_of(root: &Path) -> Result<Digest> {
    Ok(InputTree::scan(root, &mut Digest::of_file)?.digest())
}
