//! Signs releases with signatures that another machine made.

use super::offline_signer::signatures;
use super::{ReleasePublicKey, ReleaseSigner};
use crate::engine::fs_error::{IoContext, remove};
use crate::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The signatures in a folder, with any file names, and a folder for messages that still have to be
/// signed.
#[derive(Debug)]
pub struct OfflineReleaseSigner {
    key: ReleasePublicKey,
    signatures: Vec<Vec<u8>>,
    to_sign: PathBuf,
}

impl OfflineReleaseSigner {
    /// Reads the files in `folder` that are short enough for a signature, and removes the messages
    /// of an earlier round from `to_sign`.
    pub fn open(folder: &Path, key: ReleasePublicKey, to_sign: &Path) -> Result<Self> {
        remove(to_sign)?;
        Ok(OfflineReleaseSigner {
            key,
            signatures: signatures(folder)?,
            to_sign: to_sign.to_owned(),
        })
    }
}

impl ReleaseSigner for OfflineReleaseSigner {
    fn public(&self) -> ReleasePublicKey {
        self.key
    }

    /// # Errors
    /// The message is not signed yet (`Kind::Digest`). It is now a file in `to_sign`.
    fn sign(&self, name: &str, message: &[u8]) -> Result<Vec<u8>> {
        if let Some(signature) =
            self.signatures.iter().find(|signature| self.key.verifies(message, signature))
        {
            return Ok(signature.clone());
        }
        let path = self.to_sign.join(format!("{name}.message"));
        fs::create_dir_all(&self.to_sign).at("make", &self.to_sign)?;
        fs::write(&path, message).at("write", &path)?;
        let shown = path.display();
        let what = format!("`{shown}` has to be signed in another round");
        Err(Error::digest(what).hint(format!(
            "openssl pkeyutl -sign -rawin -inkey release.key -in {shown} -out {name}.sig, then \
             run the same command again"
        )))
    }
}
