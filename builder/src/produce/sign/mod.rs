//! Signing: whoever has a private key is a [`Signer`], and what it signed is [`Signed`].
//!
//! A private key stays where it is. It is no part of an action, of the store, of what a build leaves, of a log or of an error, and it is
//! printed by nothing.

mod efi_program;
mod key_file;
mod private_key;

pub use efi_program::EfiProgram;
pub use key_file::KeyFile;
pub use private_key::{PrivateKey, write_secret};

use crate::error::Result;
use osbuild_signatures::certificate::Certificate;

/// Whoever can sign for a certificate: a file, a token, a service.
pub trait Signer: Send + Sync {
    /// The certificate of the key.
    fn certificate(&self) -> &Certificate;

    /// The signature of `message`: RSASSA-PKCS1-v1_5 with SHA-256. The same message always has the same one.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>>;
}

/// What can have a signature in it.
pub trait Signable: Sized {
    /// The same with a signature.
    fn sign(self, signer: &dyn Signer) -> Result<Self>;
}

/// Something that was signed. Only [`Signed::by`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<T> {
    what: T,
}

impl<T: Signable> Signed<T> {
    /// Signs `what`.
    pub fn by(signer: &dyn Signer, what: T) -> Result<Self> {
        Ok(Signed { what: what.sign(signer)? })
    }

    /// What was signed, with its signature.
    pub fn into_inner(self) -> T {
        self.what
    }
}
