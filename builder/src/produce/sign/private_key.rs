//! An RSA key in this process. Its bytes are wiped when it is dropped.

use super::RsaKey;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use aws_lc_rs::digest;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use der::pem::{self, LineEnding};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// An RSA key.
pub struct PrivateKey {
    pair: RsaKeyPair,
}

impl PrivateKey {
    /// A new key of 2048 bits, the only size that all firmware must accept (UEFI 2.10, 32.4.1).
    pub fn generate() -> Result<Self> {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048)
            .or_build(|| "cannot make an RSA key".to_owned())?;
        Ok(PrivateKey { pair })
    }

    /// Reads a PEM file with a key in PKCS#8 or PKCS#1.
    ///
    /// # Errors
    /// It cannot be read, other users can read it too, or it has no RSA key. No error quotes the
    /// file.
    pub fn read(path: &Path) -> Result<Self> {
        let (label, der) = read_secret(path)?;
        let pair = match label {
            Label::Pkcs8 => RsaKeyPair::from_pkcs8(&der),
            Label::Pkcs1 => RsaKeyPair::from_der(&der),
        };
        // The library's error is one word, and does not quote the key.
        Ok(PrivateKey {
            pair: pair.or_build(|| {
                format!("`{}` has no RSA key that can sign for UEFI", path.display())
            })?,
        })
    }

    /// Writes it in PKCS#8 as a PEM file that other users cannot read.
    ///
    /// # Errors
    /// The file exists. It is not changed.
    pub fn write(&self, path: &Path) -> Result<()> {
        let der = self.pair.as_der().or_build(|| "cannot write an RSA key".to_owned())?;
        write_secret(path, "", der.as_ref())
    }
}

impl RsaKey for PrivateKey {
    fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    fn sign(&self, digest: &Digest) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let digest = digest::Digest::import_less_safe(digest.hash(), &digest::SHA256)
            .expect("SHA-256 has 32 bytes");
        let signed = self.pair.sign_digest(&RSA_PKCS1_SHA256, &digest, &mut signature);
        signed.or_build(|| "the private key does not sign".to_owned())?;
        Ok(signature)
    }
}

/// The encoding of a private key, by the label of its PEM file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// `PRIVATE KEY`
    Pkcs8,
    /// `RSA PRIVATE KEY`
    Pkcs1,
}

/// Whether users other than its owner can read or write a file.
pub(super) fn is_shared(file: &fs::Metadata) -> bool {
    file.permissions().mode() & 0o077 != 0
}

/// Reads a private key from a PEM file, and refuses a file that other users can read.
pub(super) fn read_secret(path: &Path) -> Result<(Label, Zeroizing<Vec<u8>>)> {
    let shown = path.display();
    let mut file = File::open(path).at("read", path)?;
    let about = file.metadata().at("read", path)?;
    if is_shared(&about) {
        return Err(Error::build(format!("the private key `{shown}` can be read by other users"))
            .hint(format!(
                "chmod 600 {shown}, and make a new key if another user may have read it"
            )));
    }
    // Allocated at full size: growing would leave copies that are never wiped.
    let mut text = Zeroizing::new(Vec::with_capacity(about.len() as usize + 64));
    file.read_to_end(&mut text).at("read", path)?;
    let no_key = || Error::build(format!("`{shown}` has no private key in PEM"));
    let (label, der) = pem::decode_vec(&text).map_err(|_| no_key())?;
    let der = Zeroizing::new(der);
    match label {
        "PRIVATE KEY" => Ok((Label::Pkcs8, der)),
        "RSA PRIVATE KEY" => Ok((Label::Pkcs1, der)),
        "ENCRYPTED PRIVATE KEY" => {
            Err(Error::build(format!("the private key `{shown}` is encrypted"))
                .hint(format!("openssl pkey -in {shown} -out PLAIN, on a file system in memory")))
        }
        _ => Err(no_key()),
    }
}

/// Writes a private key in PKCS#8 as a PEM file of mode 0600, after the text `before`.
///
/// # Errors
/// The file exists. It is not changed.
pub(super) fn write_secret(path: &Path, before: &str, pkcs8: &[u8]) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let text = pem::encode_string("PRIVATE KEY", LineEnding::LF, pkcs8)
        .expect("a key is shorter than PEM can hold");
    let text = Zeroizing::new(text);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .at("write", path)?;
    file.write_all(before.as_bytes())
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        .at("write", path)
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> (tempfile::TempDir, std::path::PathBuf, PrivateKey) {
        let folder = tempfile::tempdir().unwrap();
        let (path, key) = (folder.path().join("db.key"), PrivateKey::generate().unwrap());
        key.write(&path).unwrap();
        (folder, path, key)
    }

    #[test]
    fn a_key_reads_back_and_signs_the_same() {
        let (_folder, path, key) = written();
        let read = PrivateKey::read(&path).unwrap();
        let digest = Digest::of(b"x");
        assert_eq!(
            (read.public(), read.sign(&digest).unwrap()),
            (key.public(), key.sign(&digest).unwrap())
        );
    }

    #[test]
    fn only_its_owner_can_read_a_key_and_it_is_never_overwritten() {
        let (_folder, path, key) = written();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(key.write(&path).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = PrivateKey::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("can be read by other users") && error.contains("chmod 600"),
            "{error}"
        );
    }

    #[test]
    fn neither_debug_output_nor_an_error_has_a_part_of_the_key() {
        let (_folder, path, key) = written();
        assert_eq!(format!("{key:?}"), "PrivateKey");
        let text = fs::read_to_string(&path).unwrap();
        for (before, after) in [
            ("PRIVATE KEY", "EC PRIVATE KEY"),
            ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
            ("M", "N"),
            ("-----BEGIN", ""),
        ] {
            fs::write(&path, text.replace(before, after)).unwrap();
            let error = PrivateKey::read(&path).unwrap_err();
            let output = format!("{error}{error:?}");
            let secret = text.lines().filter(|line| line.len() == 64);
            assert!(secret.into_iter().all(|line| !output.contains(&line[8..40])), "{output}");
        }
    }
}
