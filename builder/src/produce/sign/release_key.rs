//! An Ed25519 key in this process, for releases and for roots of trust. Its bytes are wiped when it
//! is dropped.

use super::private_key::{read_secret, write_secret};
use super::{ReleasePublicKey, ReleaseSigner};
use crate::error::{Context, Result};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use std::path::Path;

/// A private key.
pub struct ReleaseKey {
    pair: Ed25519KeyPair,
}

impl ReleaseKey {
    /// A new key.
    pub fn generate() -> Result<Self> {
        Ok(ReleaseKey {
            pair: Ed25519KeyPair::generate()
                .or_build(|| "cannot make an Ed25519 key".to_owned())?,
        })
    }

    /// Reads a PEM file with a key in PKCS#8.
    ///
    /// # Errors
    /// It cannot be read, other users can read it too, or it has no Ed25519 key. No error quotes
    /// the file.
    pub fn read(path: &Path) -> Result<Self> {
        let (_, der) = read_secret(path)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        Ok(ReleaseKey {
            pair: pair.or_build(|| format!("`{}` has no Ed25519 key", path.display()))?,
        })
    }

    /// Writes it in PKCS#8 as a PEM file that other users cannot read.
    ///
    /// # Errors
    /// The file exists. It is not changed.
    pub fn write(&self, path: &Path) -> Result<()> {
        let der = self.pair.to_pkcs8v1().or_build(|| "cannot write an Ed25519 key".to_owned())?;
        write_secret(path, "", der.as_ref())
    }
}

impl ReleaseSigner for ReleaseKey {
    fn public(&self) -> ReleasePublicKey {
        let bytes = self.pair.public_key().as_ref().try_into();
        ReleasePublicKey::Ed25519(bytes.expect("a public key of Ed25519 has 32 bytes"))
    }

    fn sign(&self, _name: &str, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.pair.sign(message).as_ref().to_vec())
    }
}

impl fmt::Debug for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReleaseKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_matching_public_key_verifies_a_signature() {
        let folder = tempfile::tempdir().unwrap();
        let (path, public) = (folder.path().join("release.key"), folder.path().join("release.pub"));
        let key = ReleaseKey::generate().unwrap();
        key.write(&path).unwrap();
        std::fs::write(&public, key.public().pem()).unwrap();
        let (read, public) =
            (ReleaseKey::read(&path).unwrap(), ReleasePublicKey::read(&public).unwrap());
        assert_eq!((read.public(), read.sign("", b"x")), (public, key.sign("", b"x")));
        assert!(public.verifies(b"x", &key.sign("", b"x").unwrap()));
        assert!(!public.verifies(b"y", &key.sign("", b"x").unwrap()));
        assert!(
            !ReleaseKey::generate().unwrap().public().verifies(b"x", &key.sign("", b"x").unwrap())
        );
    }
}
