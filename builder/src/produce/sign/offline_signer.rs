//! Signs with signatures that another machine made.

use super::Signer;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use osbuild_signatures::certificate::Certificate;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The length in bytes of the longest RSA signature, of a key of 8192 bits.
const MAX_SIGNATURE: u64 = 1024;

/// The signatures in a folder. File names do not matter: the certificate shows which signature
/// belongs to which content.
#[derive(Clone, Debug)]
pub struct OfflineSigner {
    certificate: Certificate,
    folder: PathBuf,
    signatures: Vec<Vec<u8>>,
}

impl OfflineSigner {
    /// Reads the files in `folder` that are short enough for a signature by the key of
    /// `certificate`.
    pub fn open(folder: &Path, certificate: Certificate) -> Result<Self> {
        Ok(OfflineSigner {
            certificate,
            folder: folder.to_owned(),
            signatures: signatures(folder)?,
        })
    }
}

/// The files in `folder` that are short enough for a signature.
pub(super) fn signatures(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut signatures = Vec::new();
    for entry in fs::read_dir(folder).at("read", folder)? {
        let path = entry.at("read", folder)?.path();
        if path.is_file() {
            let mut bytes = Vec::new();
            File::open(&path)
                .and_then(|file| file.take(MAX_SIGNATURE + 1).read_to_end(&mut bytes))
                .at("read", &path)?;
            signatures.push(bytes);
        }
    }
    signatures.retain(|bytes| bytes.len() as u64 <= MAX_SIGNATURE);
    Ok(signatures)
}

impl Signer for OfflineSigner {
    fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    fn sign(&self, digest: &Digest) -> Result<Vec<u8>> {
        let fits =
            |signature: &&Vec<u8>| self.certificate.verifies_digest(digest.hash(), signature);
        self.signatures.iter().find(fits).cloned().ok_or_else(|| {
            let (folder, name) = (self.folder.display(), self.certificate.name());
            Error::digest(format!(
                "`{folder}` has no signature of sha256:{digest} by the key of `{name}`"
            ))
        })
    }
}
