//! Release keys in AWS KMS, which sign there and never leave it.

use super::kms::Kms;
use super::{ReleasePublicKey, ReleaseSigner};
use crate::engine::digest::Digest;
use crate::error::Result;
use osbuild_aws::KeyArn;

/// KMS's name for ECDSA with SHA-256. KMS offers Ed25519 too, but only for messages of at most 4096
/// bytes, and a provenance is longer.
const ALGORITHM: &str = "ECDSA_SHA_256";

/// A key on P-256 that this process has credentials for.
#[derive(Debug)]
pub struct KmsReleaseKey {
    kms: Kms,
    public: ReleasePublicKey,
}

impl KmsReleaseKey {
    /// Looks up the key and reads its public half.
    ///
    /// # Errors
    /// KMS cannot be reached or denies access, or the key is not a signing key on P-256.
    pub fn open(arn: &KeyArn) -> Result<Self> {
        let required = "a key on P-256 for signing";
        let (kms, spki) = Kms::open(arn, "ECC_NIST_P256", required)?;
        let public = ReleasePublicKey::from_spki(&spki).ok_or_else(|| kms.is_not(required))?;
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
