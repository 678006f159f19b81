//! Locked sources in the store, and the cache folders of ecosystems' clients beside them.

use super::Store;
use super::collect::children;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use std::fs;
use std::path::PathBuf;

/// The folder of a client with the addresses of nodes on shared networks.
const LASTING: &str = "networks";

impl Store {
    /// The digest of a locked source by its SHA-256 in hexadecimal.
    ///
    /// # Errors
    /// The store does not have it.
    pub fn locked(&self, sha256: &str) -> Result<Digest> {
        self.find(sha256)
            .ok_or_else(|| Error::lock(format!("the source sha256:{sha256} was not fetched")))
    }

    /// The cache folder of a client, for files that it can fetch or make again. The folder
    /// `networks` of the client `run` lasts: no collection removes it, because a node's address on
    /// a shared network is that of its certificates.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn state(&self, client: &str) -> Result<PathBuf> {
        let path = self.root().join("clients").join(client);
        fs::create_dir_all(&path).at("make the directory", &path)?;
        Ok(path)
    }

    /// The folders of clients whose content they can fetch or make again.
    pub(super) fn states_that_do_not_last(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for client in children(&self.root().join("clients"))? {
            match client.join(LASTING).exists() {
                true => found.extend(children(&client)?),
                false => found.push(client),
            }
        }
        found.retain(|path| !path.ends_with(LASTING));
        Ok(found)
    }
}
