//! The node's own key and certificate, by which clients recognize it.

use osbuild_abi::osd::CERTIFICATE_NAME;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_protocol::Fingerprint;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::path::Path;

/// The file with both, and the folder beside it for what was in its way.
const FILE: &str = "node.pem";
const ASIDE: &str = "aside";

/// The greatest length of the file in bytes.
const MAX_LENGTH: u64 = 16 << 10;

/// The key and the certificate, which names and certifies itself.
#[derive(Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

impl Identity {
    /// The identity in the folder. One that is missing or damaged is made anew: a node that clients
    /// have to learn again is better than one that they cannot reach. A damaged file is reported on
    /// stderr.
    ///
    /// # Errors
    /// It cannot be made, or not be written.
    pub fn in_folder(folder: &Path) -> Outcome<Identity> {
        let path = folder.join(FILE);
        let folder =
            Folder::open(folder, ASIDE).explain(format_args!("open `{}`", folder.display()))?;
        let kept = folder.read(FILE, MAX_LENGTH);
        let kept =
            kept.explain("read").and_then(|pem| pem.map(|pem| Self::parse(&pem)).transpose());
        match kept {
            Ok(Some(identity)) => return Ok(identity),
            Ok(None) => {}
            Err(failure) => eprintln!(
                "error: `{}` is damaged: {failure}; the node gets a new certificate",
                path.display()
            ),
        }
        let pem = generate().explain("make the node's certificate")?;
        let write = folder.replace(FILE, pem.as_bytes(), 0o600);
        write.explain(format_args!("write `{}`", path.display()))?;
        Self::parse(pem.as_bytes())
    }

    /// An identity that is gone with the process.
    pub fn temporary() -> Outcome<Identity> {
        Self::parse(generate().explain("make a certificate")?.as_bytes())
    }

    /// The fingerprint of the certificate, by which a person compares it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&Sha256::digest(&self.certificate).into())
    }

    fn parse(pem: &[u8]) -> Outcome<Identity> {
        let key = PrivateKeyDer::from_pem_slice(pem).explain("read the key")?;
        let certificate = CertificateDer::from_pem_slice(pem).explain("read the certificate")?;
        let signing = any_supported_type(&key).explain("read the key")?;
        let both = CertifiedKey::new(vec![certificate.clone()], signing);
        both.keys_match().explain("compare the certificate with its key")?;
        Ok(Identity { certificate, key })
    }
}

/// A key on P-256 and a certificate without a useful end, in PEM: the clock of a node may be wrong.
fn generate() -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([CERTIFICATE_NAME.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, CERTIFICATE_NAME);
    let certificate = params.self_signed(&key)?;
    Ok(certificate.pem() + &key.serialize_pem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_outlasts_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let fingerprint = || Identity::in_folder(folder.path()).unwrap().fingerprint();
        let first = fingerprint();
        assert_eq!(first, fingerprint());
        assert_ne!(first, Identity::temporary().unwrap().fingerprint());
    }

    #[test]
    fn a_damaged_identity_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let of_another = generate().unwrap();
        let certificate = of_another.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
        let mixed = certificate.to_owned() + &KeyPair::generate().unwrap().serialize_pem();
        for damaged in ["", "-----BEGIN CERTIFICATE-----\n", certificate, &mixed] {
            std::fs::write(&path, damaged).unwrap();
            let made = Identity::in_folder(folder.path()).unwrap().fingerprint();
            assert_eq!(made, Identity::in_folder(folder.path()).unwrap().fingerprint());
        }
    }
}
