//! A signature that stands beside what it is of.

use super::Signable;
use crate::error::{Context, Result};
use crate::produce::digest::Digest;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::detached;

/// Bytes that stay as they are, with a signature for a file beside theirs: iPXE's `imgverify` wants it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside<'a> {
    content: &'a [u8],
    signature: Vec<u8>,
}

impl<'a> Beside<'a> {
    /// These bytes, not signed yet.
    pub fn of(content: &'a [u8]) -> Self {
        Beside { content, signature: Vec::new() }
    }

    /// What goes into the file with the signature; nothing before it is signed.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }
}

impl Signable for Beside<'_> {
    fn to_be_signed(&self) -> Result<Digest> {
        Ok(Digest::of(self.content))
    }

    fn with(self, certificate: &Certificate, signature: &[u8]) -> Result<Self> {
        let signature = detached::write(self.content, certificate, signature).or_build(|| "cannot sign the file".to_owned())?;
        Ok(Beside { signature, ..self })
    }
}
