//! Locked sources in the store, and the cache folders of ecosystems' clients beside them.

use super::Store;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use std::fs;
use std::path::PathBuf;

impl Store {
    /// The digest of a locked source by its SHA-256 in hexadecimal.
    ///
    /// # Errors
    /// The store does not have it.
    pub fn locked(&self, sha256: &str) -> Result<Digest> {
        self.find(sha256)
            .ok_or_else(|| Error::lock(format!("the source sha256:{sha256} was not fetched")))
    }

    /// The cache folder of a client, for files that it can fetch or make again.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn state(&self, client: &str) -> Result<PathBuf> {
        let path = self.root().join("clients").join(client);
        fs::create_dir_all(&path).at("make the directory", &path)?;
        Ok(path)
    }
}
