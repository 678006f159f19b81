//! A signer whose key is a file.

use super::{PrivateKey, Signer};
use crate::error::{Context, Error, Result};
use crate::produce::digest::Digest;
use crate::produce::disk::OnDisk;
use osbuild_signatures::certificate::Certificate;
use std::path::Path;

/// A key in a PEM file, with its certificate.
#[derive(Debug)]
pub struct KeyFile {
    key: PrivateKey,
    certificate: Certificate,
}

impl KeyFile {
    /// Reads a key and its certificate.
    ///
    /// # Errors
    /// One of them cannot be read, or they do not belong together.
    pub fn open(key: &Path, certificate: &Path) -> Result<Self> {
        let pem = std::fs::read(certificate).at("read", certificate)?;
        let no_certificate = || format!("`{}` is no certificate that can sign for UEFI", certificate.display());
        let found = Certificate::from_pem(&pem).or_build(no_certificate)?;
        Self::new(PrivateKey::read(key)?, found)
            .map_err(|error| error.cause(format!("the key is `{}`, the certificate `{}`", key.display(), certificate.display())))
    }

    /// Joins a key with its certificate.
    ///
    /// # Errors
    /// The certificate is that of another key.
    pub fn new(key: PrivateKey, certificate: Certificate) -> Result<Self> {
        match key.public() == certificate.public_key() {
            true => Ok(KeyFile { key, certificate }),
            false => Err(Error::build("the certificate is that of another key")),
        }
    }
}

impl Signer for KeyFile {
    fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    fn sign(&self, digest: &Digest) -> Result<Vec<u8>> {
        self.key.sign(digest)
    }
}
