//! A signature that stands beside what it is of.

use super::Signable;
use crate::engine::digest::Digest;
use crate::error::{Context, Result};
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::detached;

/// Bytes that stay as they are, with a signature for a file beside theirs: iPXE's `imgverify` wants
/// it so. Their digest stands for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedSignature {
    content: Digest,
    signature: Vec<u8>,
}

impl DetachedSignature {
    /// These bytes, not signed yet.
    pub fn of(content: &[u8]) -> Self {
        DetachedSignature::of_digest(Digest::of(content))
    }

    /// The bytes with this digest, not signed yet.
    pub fn of_digest(content: Digest) -> Self {
        DetachedSignature { content, signature: Vec::new() }
    }

    /// What goes into the file with the signature; nothing before it is signed.
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
