//! A key of releases in AWS KMS. It signs there and never leaves.

use super::kms::Kms;
use super::{KmsArn, ReleasePublicKey, ReleaseSigner};
use crate::engine::digest::Digest;
use crate::error::Result;

/// ECDSA with SHA-256, as KMS calls it. Its Ed25519 signs messages of 4096 bytes at most, which a
/// provenance is not.
const ALGORITHM: &str = "ECDSA_SHA_256";

/// A key on P-256, for whose use this process has credentials.
#[derive(Debug)]
pub struct KmsReleaseKey {
    kms: Kms,
    public: ReleasePublicKey,
}

impl KmsReleaseKey {
    /// Asks KMS for the public half of the key.
    ///
    /// # Errors
    /// KMS does not answer, does not allow it, or the key is none on P-256 that signs.
    pub fn open(arn: &KmsArn) -> Result<Self> {
        let wanted = "key on P-256 that signs";
        let (kms, spki) = Kms::open(arn, "ECC_NIST_P256", wanted)?;
        let public = ReleasePublicKey::from_spki(&spki).ok_or_else(|| kms.is_none(wanted))?;
        Ok(KmsReleaseKey { kms, public })
    }
}

impl ReleaseSigner for KmsReleaseKey {
    fn public(&self) -> ReleasePublicKey {
        self.public
    }

    fn sign(&self, _name: &str, message: &[u8]) -> Result<Vec<u8>> {
        self.kms.sign(&Digest::of(message), ALGORITHM)
    }
}
