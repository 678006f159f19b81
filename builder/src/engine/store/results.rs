//! Results by the digest of what they were made from: the action cache, and the memo of steps that
//! run in this process.

use super::{Store, note_use};
use crate::engine::action::ActionResult;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::engine::key::Key;
use crate::error::Result;
use std::fs;
use std::path::{Path, PathBuf};

impl Store {
    /// The result of an action, if the store has it and all its files with their sizes. Their
    /// content is checked when they are read, because this must stay cheap.
    pub fn recall(&self, action: &Digest) -> Option<ActionResult> {
        let is_here = |result: &ActionResult| {
            result.outputs.values().all(|output| self.contains(&output.digest))
        };
        self.record(action).filter(is_here)
    }

    /// The result of an action, if the store has it, with or without its files.
    pub fn record(&self, action: &Digest) -> Option<ActionResult> {
        ActionResult::decode(&read_sealed(&self.result_path(action))?)
    }

    /// Stores the result of an action. It counts for [`Store::recall`] when its files are there.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remember(&self, action: &Digest, result: &ActionResult) -> Result<()> {
        self.write_sealed(&self.result_path(action), &result.encode())
    }

    /// The digest of the content that a step in this process stored under `key`, if the store still
    /// has that content.
    pub fn recall_memo(&self, key: &Key) -> Option<Digest> {
        let text = String::from_utf8(read_sealed(&self.memo_path(key))?).ok()?;
        text.parse().ok().filter(|digest| self.contains(digest))
    }

    /// Stores what a step in this process made. `key` must name everything that it depends on.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remember_memo(&self, key: &Key, made: &Digest) -> Result<()> {
        let path = self.memo_path(key);
        let directory = path.parent().expect("a memo is in a directory");
        fs::create_dir_all(directory).at("make the directory", directory)?;
        self.write_sealed(&path, format!("{made:?}").as_bytes())
    }

    pub(super) fn result_path(&self, action: &Digest) -> PathBuf {
        self.root().join("ac").join(action.hex())
    }

    pub(super) fn memo_path(&self, key: &Key) -> PathBuf {
        self.root().join("memo").join(key.kind()).join(key.digest().hex())
    }

    /// Writes `content` after its own SHA-256, so that a torn write is never read as a result.
    pub(super) fn write_sealed(&self, path: &Path, content: &[u8]) -> Result<()> {
        let fresh = self.inner.session.fresh("result");
        fs::write(&fresh, [Digest::of(content).hash().as_slice(), content].concat())
            .at("write", &fresh)?;
        fs::rename(&fresh, path).at("write", path)
    }
}

/// The content of a file that [`Store::write_sealed`] wrote; `None` when it is missing or torn.
pub(super) fn read_sealed(path: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let (seal, content) = bytes.split_at_checked(32)?;
    if Digest::of(content).hash() != seal {
        return None;
    }
    // It is read: nothing else needs the file.
    note_use(path, &fs::metadata(path).ok()?);
    Some(content.to_vec())
}
