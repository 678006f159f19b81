//! Signing: a [`Signer`] has a private key, and [`Signed`] proves that it was used. A private key
//! never leaves its place: no action, stored file, output, log or error contains it.

mod api_key;
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

pub use api_key::ApiKey;
pub use certified::Certified;
pub use detached_signature::DetachedSignature;
pub use efi_file::EfiFile;
pub use efi_program::EfiProgram;
pub use kms::KmsKey;
pub use kms_release_key::KmsReleaseKey;
pub use offline_release_signer::OfflineReleaseSigner;
pub use offline_signer::OfflineSigner;
pub use private_key::PrivateKey;
pub use release_key::ReleaseKey;
pub use release_public_key::ReleasePublicKey;
pub use token::TokenKey;
pub use token_uri::TokenUri;

use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use osbuild_signatures::certificate::Certificate;
use std::fmt;

/// A signer with a certificate: a file, a token, a service, or a person at another machine.
pub trait Signer: Send + Sync {
    /// The certificate of the key.
    fn certificate(&self) -> &Certificate;

    /// The signature of the content with this digest: RSASSA-PKCS1-v1_5 with SHA-256. It is the
    /// same every time.
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>>;
}

/// An RSA key that can sign immediately. It reveals only its public half.
pub trait RsaKey: fmt::Debug + Send + Sync {
    /// The public half: an `RSAPublicKey` in DER (RFC 8017).
    fn public(&self) -> &[u8];

    /// The signature of the content with this digest: RSASSA-PKCS1-v1_5 with SHA-256.
    fn sign(&self, digest: &Digest) -> Result<Vec<u8>>;
}

/// A signer of releases: a file, AWS KMS, or a person at another machine.
pub trait ReleaseSigner: fmt::Debug + Send + Sync {
    /// The public half of the key.
    fn public(&self) -> ReleasePublicKey;

    /// The signature of a message; `name` is for people. An Ed25519 signature of a message is the
    /// same every time, an ECDSA signature is not.
    fn sign(&self, name: &str, message: &[u8]) -> Result<Vec<u8>>;
}

/// Content that can be signed.
pub trait Signable {
    /// The digest to sign.
    fn to_be_signed(&self) -> Result<Digest>;

    /// The content with this signature.
    fn with(self, certificate: &Certificate, signature: &[u8]) -> Result<Self>
    where
        Self: Sized;
}

/// Signed content. Only [`Signed::by`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<T> {
    what: T,
}

impl<T: Signable> Signed<T> {
    /// Signs `what`.
    ///
    /// # Errors
    /// The signer fails, or its signature does not match its certificate (`Kind::Digest`): a token
    /// or a service may return any bytes.
    pub fn by(signer: &dyn Signer, what: T) -> Result<Self> {
        let (digest, certificate) = (what.to_be_signed()?, signer.certificate());
        let signature = signer.sign(&digest)?;
        if !certificate.verifies_digest(digest.hash(), &signature) {
            let name = certificate.name();
            return Err(Error::digest(format!(
                "the certificate of `{name}` does not verify a signature"
            ))
            .cause(format!("its key should have signed sha256:{digest}")));
        }
        Ok(Signed { what: what.with(certificate, &signature)? })
    }

    /// The content with its signature.
    pub fn into_inner(self) -> T {
        self.what
    }
}
