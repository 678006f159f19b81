//! What UEFI firmware starts.

use super::{Signable, Signer};
use crate::error::{Context, Result};
use osbuild_signatures::authenticode;

/// The bytes of a PE image that firmware starts: a UKI, a boot loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EfiProgram(pub Vec<u8>);

impl Signable for EfiProgram {
    fn sign(mut self, signer: &dyn Signer) -> Result<Self> {
        let cannot = || "cannot sign the program for UEFI".to_owned();
        let digest = authenticode::digest(&self.0).or_build(cannot)?;
        let signature = signer.sign(&authenticode::to_be_signed(&digest))?;
        authenticode::sign(&mut self.0, signer.certificate(), &signature).or_build(cannot)?;
        Ok(self)
    }
}
