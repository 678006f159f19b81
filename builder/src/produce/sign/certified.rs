//! A signer with a certificate and its key.

use super::{RsaKey, Signer};
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use osbuild_signatures::certificate::Certificate;

/// A key with its certificate.
#[derive(Debug)]
pub struct Certified {
    key: Box<dyn RsaKey>,
    certificate: Certificate,
}

impl Certified {
    /// Joins a key with its certificate.
    ///
    /// # Errors
    /// The certificate is for another key.
    pub fn new(key: Box<dyn RsaKey>, certificate: Certificate) -> Result<Self> {
        match key.public() == certificate.public_key() {
            true => Ok(Certified { key, certificate }),
            false => Err(Error::build("the certificate is for another key")
                .cause(format!("its subject is `{}`", certificate.subject()))),
        }
    }
}

impl Signer for Certified {
    fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    fn sign(&self, digest: &Digest) -> Result<Vec<u8>> {
        self.key.sign(digest)
    }
}
