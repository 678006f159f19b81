//! A program for UEFI firmware in memory.

use super::Signable;
use crate::engine::digest::Digest;
use crate::error::{Context, Result};
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;

/// The bytes of a PE image for UEFI firmware. The image contains its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EfiProgram(pub Vec<u8>);

impl Signable for EfiProgram {
    fn to_be_signed(&self) -> Result<Digest> {
        let digest = authenticode::digest(&self.0).or_build(cannot)?;
        Ok(Digest::of(&authenticode::to_be_signed(&digest)))
    }

    fn with(mut self, certificate: &Certificate, signature: &[u8]) -> Result<Self> {
        authenticode::sign(&mut self.0, certificate, signature).or_build(cannot)?;
        Ok(self)
    }
}

fn cannot() -> String {
    "cannot sign the program for UEFI".to_owned()
}
