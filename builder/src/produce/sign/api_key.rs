//! A key on P-256 for certificates of the node API. Its bytes are wiped when it is dropped.

use super::private_key::{read_secret, write_secret};
use crate::error::{Context, Error, Result};
use rcgen::KeyPair;
use std::fmt;
use std::path::Path;

/// A private key.
pub struct ApiKey {
    pair: KeyPair,
}

impl ApiKey {
    /// A new key.
    pub fn generate() -> Result<Self> {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256);
        Ok(ApiKey { pair: pair.or_build(|| "cannot make a key on P-256".to_owned())? })
    }

    /// Reads a PEM file with a key in PKCS#8.
    ///
    /// # Errors
    /// It cannot be read, other users can read it too, or it has no key on P-256. No error quotes
    /// the file.
    pub fn read(path: &Path) -> Result<Self> {
        let (_, der) = read_secret(path)?;
        let pair = KeyPair::try_from(&der[..]).ok();
        let pair = pair.filter(|pair| pair.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256));
        let none = || Error::build(format!("`{}` has no key on P-256", path.display()));
        Ok(ApiKey { pair: pair.ok_or_else(none)? })
    }

    /// Writes it in PKCS#8 as a PEM file that other users cannot read, after `certificate`, which
    /// is PEM or empty.
    ///
    /// # Errors
    /// The file exists. It is not changed.
    pub fn write(&self, path: &Path, certificate: &str) -> Result<()> {
        write_secret(path, certificate, self.pair.serialized_der())
    }

    /// The key for the crate `rcgen`.
    pub fn pair(&self) -> &KeyPair {
        &self.pair
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}
