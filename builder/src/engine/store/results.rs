//! What steps gave, by the digest of what they were given: the action cache, and the memo of steps
//! that run in this process.

use super::{Store, note_use};
use crate::engine::action::ActionResult;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::Result;
use std::fs;
use std::path::{Path, PathBuf};

impl Store {
    /// The result of an action, if it is stored and all its files are there in their sizes. Their
    /// content is checked when they are read: a look must stay cheap.
    pub fn recall(&self, action: &Digest) -> Option<ActionResult> {
        let result = ActionResult::decode(&read_sealed(&self.result_path(action))?)?;
        result.outputs.values().all(|output| self.contains(&output.digest)).then_some(result)
    }

    /// Stores the result of an action. Its files must be in the store.
    pub fn remember(&self, action: &Digest, result: &ActionResult) -> Result<()> {
        self.write_sealed(&self.result_path(action), &result.encode())
    }

    /// What a step of this `kind` made of what `key` stands for, if it is still there.
    pub fn recall_memo(&self, kind: &str, key: &Digest) -> Option<Digest> {
        let text = String::from_utf8(read_sealed(&self.memo_path(kind, key))?).ok()?;
        text.parse().ok().filter(|digest| self.contains(digest))
    }

    /// Stores what a step of this `kind` made of what `key` stands for.
    pub fn remember_memo(&self, kind: &str, key: &Digest, made: &Digest) -> Result<()> {
        let path = self.memo_path(kind, key);
        let directory = path.parent().expect("a memo is in a directory");
        fs::create_dir_all(directory).at("make the directory", directory)?;
        self.write_sealed(&path, format!("{made:?}").as_bytes())
    }

    pub(super) fn result_path(&self, action: &Digest) -> PathBuf {
        self.root().join("ac").join(action.hex())
    }

    pub(super) fn memo_path(&self, kind: &str, key: &Digest) -> PathBuf {
        self.root().join("memo").join(kind).join(key.hex())
    }

    /// Writes `content` behind its own SHA-256, so that a torn write is not taken for a result.
    pub(super) fn write_sealed(&self, path: &Path, content: &[u8]) -> Result<()> {
        let fresh = self.inner.session.fresh("result");
        fs::write(&fresh, [Digest::of(content).hash().as_slice(), content].concat())
            .at("write", &fresh)?;
        fs::rename(&fresh, path).at("write", path)
    }
}

/// The content of a file that [`Store::write_sealed`] wrote; `None` when it is not there or not
/// whole.
pub(super) fn read_sealed(path: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let (seal, content) = bytes.split_at_checked(32)?;
    if Digest::of(content).hash() != seal {
        return None;
    }
    note_use(path, &fs::metadata(path).ok()?);
    Some(content.to_vec())
}
