//! The public half of a key that signs releases.

use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use der::pem::{self, LineEnding};
use std::path::Path;

/// The public half, which verifies signatures of the private one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleasePublicKey {
    /// Ed25519 (RFC 8032), for a key in a file.
    Ed25519([u8; 32]),
    /// ECDSA on P-256 with SHA-256, as an uncompressed point (SEC 1, 2.3.3), for a key in AWS KMS,
    /// which does not sign long messages with Ed25519.
    P256([u8; 65]),
}

/// The bytes before an Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410, 4).
const ED25519_SPKI: &[u8] =
    &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The bytes before a P-256 key in a `SubjectPublicKeyInfo` (RFC 5480, 2).
const P256_SPKI: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

impl ReleasePublicKey {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// It cannot be read, or contains no such key.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).at("read", path)?;
        let der = pem::decode_vec(&text)
            .ok()
            .filter(|(label, _)| *label == "PUBLIC KEY")
            .map(|(_, der)| der);
        let key = der.and_then(|der| ReleasePublicKey::from_spki(&der));
        key.ok_or_else(|| {
            Error::build(format!("`{}` has no public key of Ed25519 or P-256", path.display()))
        })
    }

    /// The key in a `SubjectPublicKeyInfo` in DER; `None` for another kind of key.
    pub fn from_spki(der: &[u8]) -> Option<Self> {
        let ed25519 =
            || der.strip_prefix(ED25519_SPKI)?.try_into().ok().map(ReleasePublicKey::Ed25519);
        let p256 = || der.strip_prefix(P256_SPKI)?.try_into().ok().map(ReleasePublicKey::P256);
        ed25519().or_else(p256)
    }

    /// The key in PEM, as for `openssl pkey -pubin`.
    pub fn pem(&self) -> String {
        let head = match self {
            ReleasePublicKey::Ed25519(_) => ED25519_SPKI,
            ReleasePublicKey::P256(_) => P256_SPKI,
        };
        let der = [head, self.bytes()].concat();
        pem::encode_string("PUBLIC KEY", LineEnding::LF, &der)
            .expect("a key is shorter than PEM can hold")
    }

    /// The bytes of the key alone.
    pub fn bytes(&self) -> &[u8] {
        match self {
            ReleasePublicKey::Ed25519(bytes) => bytes,
            ReleasePublicKey::P256(bytes) => bytes,
        }
    }

    /// Whether this key made the signature of this message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            ReleasePublicKey::Ed25519(bytes) => {
                UnparsedPublicKey::new(&ED25519, bytes).verify(message, signature).is_ok()
            }
            ReleasePublicKey::P256(bytes) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, bytes)
                .verify(message, signature)
                .is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

    #[test]
    fn a_p256_key_verifies_only_its_own_signatures() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let key = ReleasePublicKey::P256(pair.public_key().as_ref().try_into().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("release.pub");
        std::fs::write(&path, key.pem()).unwrap();
        assert_eq!(ReleasePublicKey::read(&path).unwrap(), key);
        let signature = pair.sign(&SystemRandom::new(), b"x").unwrap();
        assert!(key.verifies(b"x", signature.as_ref()) && !key.verifies(b"y", signature.as_ref()));
    }

    #[test]
    fn other_kinds_of_keys_are_rejected() {
        let mut der = [P256_SPKI, &[4; 65]].concat();
        assert!(ReleasePublicKey::from_spki(&der).is_some());
        der.pop();
        assert_eq!(ReleasePublicKey::from_spki(&der), None);
        assert_eq!(ReleasePublicKey::from_spki(&[0x30; 300]), None);
    }
}
