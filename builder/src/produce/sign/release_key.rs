//! An Ed25519 key in this process: it signs releases, or says whose keys do. Its bytes are wiped when it goes.

use super::ReleaseSigner;
use super::private_key::{read_secret, write_secret};
use crate::error::{Context, Error, Result};
use crate::produce::disk::OnDisk;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use der::pem::{self, LineEnding};
use std::fmt;
use std::path::Path;

/// What stands before the 32 bytes of an Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410, 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A private key.
pub struct ReleaseKey {
    pair: Ed25519KeyPair,
}

/// The public half: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasePublicKey(pub [u8; 32]);

impl ReleaseKey {
    /// A fresh key.
    pub fn generate() -> Result<Self> {
        Ok(ReleaseKey { pair: Ed25519KeyPair::generate().or_build(|| "cannot make an Ed25519 key".to_owned())? })
    }

    /// Reads a PEM file with a key in PKCS#8.
    ///
    /// # Errors
    /// It cannot be read, other users could read it as well, or it holds no Ed25519 key. No error quotes the file.
    pub fn read(path: &Path) -> Result<Self> {
        let (_, der) = read_secret(path)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        Ok(ReleaseKey { pair: pair.or_build(|| format!("`{}` holds no Ed25519 key", path.display()))? })
    }

    /// Writes it in PKCS#8 as a PEM file that nobody else can read. A file that is there already stays as it is, and is an error.
    pub fn write(&self, path: &Path) -> Result<()> {
        let der = self.pair.to_pkcs8v1().or_build(|| "cannot write an Ed25519 key".to_owned())?;
        write_secret(path, der.as_ref())
    }

    /// The public half in PEM, as `openssl pkey -pubin` reads it.
    pub fn public_pem(&self) -> String {
        let der = self.pair.public_key().as_der().expect("a public key that is there always encodes");
        pem::encode_string("PUBLIC KEY", LineEnding::LF, der.as_ref()).expect("a key is shorter than PEM can hold")
    }
}

impl ReleaseSigner for ReleaseKey {
    fn public(&self) -> ReleasePublicKey {
        let bytes = self.pair.public_key().as_ref().try_into();
        ReleasePublicKey(bytes.expect("a public key of Ed25519 has 32 bytes"))
    }

    fn sign(&self, _name: &str, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.pair.sign(message).as_ref().to_vec())
    }
}

impl ReleasePublicKey {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// It cannot be read, or holds no public key of Ed25519.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).at("read", path)?;
        let der = pem::decode_vec(&text).ok().filter(|(label, _)| *label == "PUBLIC KEY").map(|(_, der)| der);
        let bytes = der.as_deref().and_then(|der| der.strip_prefix(&SPKI)).and_then(|bytes| bytes.try_into().ok());
        bytes.map(ReleasePublicKey).ok_or_else(|| Error::build(format!("`{}` holds no public key of Ed25519", path.display())))
    }

    /// Whether this key made the signature of this message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
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
    fn a_key_reads_back_and_what_it_signs_is_verified_by_its_public_half_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, public) = (folder.path().join("release.key"), folder.path().join("release.pub"));
        let key = ReleaseKey::generate().unwrap();
        key.write(&path).unwrap();
        std::fs::write(&public, key.public_pem()).unwrap();
        let (read, public) = (ReleaseKey::read(&path).unwrap(), ReleasePublicKey::read(&public).unwrap());
        assert_eq!((read.public(), read.sign("", b"x")), (public, key.sign("", b"x")));
        assert!(public.verifies(b"x", &key.sign("", b"x").unwrap()));
        assert!(!public.verifies(b"y", &key.sign("", b"x").unwrap()));
        assert!(!ReleaseKey::generate().unwrap().public().verifies(b"x", &key.sign("", b"x").unwrap()));
    }
}
