//! A signature in a separate file.

use super::Signable;
use crate::engine::digest::Digest;
use crate::error::{Context, Result};
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::detached;

/// A signature that does not change its content, for a separate file, as iPXE's `imgverify`
/// requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedSignature {
    content: Digest,
    signature: Vec<u8>,
}

impl DetachedSignature {
    /// An unsigned value for these bytes.
    pub fn of(content: &[u8]) -> Self {
        DetachedSignature::of_digest(Digest::of(content))
    }

    /// An unsigned value for the bytes with this digest.
    pub fn of_digest(content: Digest) -> Self {
        DetachedSignature { content, signature: Vec::new() }
    }

    /// The content of the file with the signature; empty before it is signed.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }
}

impl Signable for DetachedSignature {
    fn to_be_signed(&self) -> Result<Digest> {
        Ok(self.content)
    }

    fn with(self, certificate: &Certificate, signature: &[u8]) -> Result<Self> {
        let signature = detached::write_of(self.content.hash(), certificate, signature);
        Ok(DetachedSignature {
            signature: signature.or_build(|| "cannot sign the file".to_owned())?,
            ..self
        })
    }
}
