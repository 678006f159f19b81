//! Signing: whoever has a private key is a [`Signer`], and what it signed is [`Signed`].
//!
//! A private key stays where it is. It is no part of an action, of the store, of what a build
//! leaves, of a log or of an error, and it is printed by nothing.

mod certified;
mod detached_signature;
mod efi_file;
mod efi_program;
mod kms;
mod kms_release_key;
mod offline_release_signer;
mod offline_signer;
mod private_key;
mod release_key;
mod release_public_key;
mod single_part;
pub mod to_sign;
mod token;
mod token_uri;

pub use certified::Certified;
pub use detached_signature::DetachedSignature;
pub use efi_file::EfiFile;
pub use efi_program::EfiProgram;
pub use kms::{KmsArn, KmsKey};
pub use kms_release_key::KmsReleaseKey;
pub use offline_release_signer::OfflineReleaseSigner;
pub use offline_signer::OfflineSigner;
pub use private_key::PrivateKey;
pub use release_key::ReleaseKey;
pub use release_public_key::ReleasePublicKey;
pub use token::TokenKey;
pub use token_uri::TokenUri;

use crate::engine::digest::Digest;
use crate::error::Result;
use osbuild_signatures::certificate::Certificate;
use std::fmt;

/// Whoever can sign for a certificate: a file, a token, a service, somebody at another machine.
pub trait Signer: Send + Sync {
    /// The certificate of the key.
    fn certificate(&self) -> &Certificate;

    /// The signature of what has this digest: RSASSA-PKCS1-v1_5 with SHA-256. The same digest
    /// always has the same one.
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>>;
}

/// An RSA key at hand. It signs, and tells nothing but its public half.
pub trait RsaKey: fmt::Debug + Send + Sync {
    /// Its public half: an `RSAPublicKey` in DER (RFC 8017).
    fn public(&self) -> &[u8];

    /// The signature of what has this digest: RSASSA-PKCS1-v1_5 with SHA-256.
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>>;
}

/// Whoever can sign releases: a file, AWS KMS, or somebody at another machine.
pub trait ReleaseSigner: fmt::Debug + Send + Sync {
    /// The public half of the key.
    fn public(&self) -> ReleasePublicKey;

    /// The signature of a message, which people call `name`. Ed25519 gives the same message the
    /// same signature each time, ECDSA does not.
    fn sign(&self, name: &str, message: &[u8]) -> Result<Vec<u8>>;
}

/// What can have a signature.
pub trait Signable {
    /// What a signature has to be made of.
    fn to_be_signed(&self) -> Result<Digest>;

    /// The same with this signature.
    fn with(self, certificate: &Certificate, signature: &[u8]) -> Result<Self>
    where
        Self: Sized;
}

/// Something that was signed. Only [`Signed::by`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<T> {
    what: T,
}

impl<T: Signable> Signed<T> {
    /// Signs `what`.
    pub fn by(signer: &dyn Signer, what: T) -> Result<Self> {
        let signature = signer.sign(&what.to_be_signed()?)?;
        Ok(Signed { what: what.with(signer.certificate(), &signature)? })
    }

    /// What was signed, with its signature.
    pub fn into_inner(self) -> T {
        self.what
    }
}
