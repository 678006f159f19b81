//! X.509 certificates (RFC 5280), as far as signatures use them.

use crate::nesting;
use aws_lc_rs::digest;
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use const_oid::db::rfc4519::{COMMON_NAME, ORGANIZATIONAL_UNIT_NAME};
use const_oid::db::rfc5912::RSA_ENCRYPTION;
use der::asn1::ObjectIdentifier;
use der::pem::{self, LineEnding, PemLabel};
use der::{Decode, Encode, EncodePem};
use sha2::{Digest, Sha256};
use std::fmt;

/// A certificate with an RSA key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate in the form of the crate `x509-cert`.
    pub(crate) inner: x509_cert::Certificate,
    der: Vec<u8>,
}

/// Why bytes were refused as a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// They are not an X.509 certificate.
    Damaged(der::Error),
    /// The key is not an RSA key.
    NotRsa,
}

impl Certificate {
    /// Reads a certificate in DER, which must end with it.
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        let parse = || {
            nesting::check(der)?;
            x509_cert::Certificate::from_der(der)
        };
        Self::checked(parse().map_err(Error::Damaged)?)
    }

    /// Reads a certificate in PEM (RFC 7468).
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let (label, der) = pem::decode_vec(pem).map_err(|error| Error::Damaged(error.into()))?;
        x509_cert::Certificate::validate_pem_label(label)
            .map_err(|error| Error::Damaged(error.into()))?;
        Self::from_der(&der)
    }

    /// Takes a certificate that a signature includes.
    pub(crate) fn checked(inner: x509_cert::Certificate) -> Result<Self, Error> {
        if inner.tbs_certificate.subject_public_key_info.algorithm.oid != RSA_ENCRYPTION {
            return Err(Error::NotRsa);
        }
        let der = inner.to_der().map_err(Error::Damaged)?;
        Ok(Certificate { inner, der })
    }

    /// The certificate in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The certificate in PEM.
    pub fn pem(&self) -> String {
        self.inner.to_pem(LineEnding::LF).expect("a parsed certificate can be encoded")
    }

    /// The subject as one line (RFC 4514).
    pub fn subject(&self) -> String {
        self.inner.tbs_certificate.subject.to_string()
    }

    /// The common name of the subject; the whole subject if it has none.
    pub fn name(&self) -> String {
        self.part(COMMON_NAME).unwrap_or_else(|| self.subject())
    }

    /// The organizational unit of the subject.
    pub fn unit(&self) -> Option<String> {
        self.part(ORGANIZATIONAL_UNIT_NAME)
    }

    /// The start of its validity, in seconds since 1970.
    pub fn not_before(&self) -> u64 {
        self.inner.tbs_certificate.validity.not_before.to_unix_duration().as_secs()
    }

    /// The last second of its validity, in seconds since 1970.
    pub fn not_after(&self) -> u64 {
        self.inner.tbs_certificate.validity.not_after.to_unix_duration().as_secs()
    }

    /// SHA-256 of the DER, in hexadecimal.
    pub fn fingerprint(&self) -> String {
        Sha256::digest(&self.der).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The public key: an `RSAPublicKey` in DER (RFC 8017).
    pub fn public_key(&self) -> &[u8] {
        self.inner.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes()
    }

    /// Whether its key made this signature of `message`: RSASSA-PKCS1-v1_5 with SHA-256, 2048 to
    /// 8192 bits.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.public_key())
            .verify(message, signature)
            .is_ok()
    }

    /// Whether its key made this signature of a message with this SHA-256.
    pub fn verifies_digest(&self, sha256: &[u8; 32], signature: &[u8]) -> bool {
        let digest = digest::Digest::import_less_safe(sha256, &digest::SHA256)
            .expect("SHA-256 has 32 bytes");
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.public_key())
            .verify_digest(&digest, signature)
            .is_ok()
    }

    fn part(&self, kind: ObjectIdentifier) -> Option<String> {
        let parts = self.inner.tbs_certificate.subject.0.iter().flat_map(|parts| parts.0.iter());
        let part = parts.into_iter().find(|part| part.oid == kind)?;
        std::str::from_utf8(part.value.value()).ok().map(str::to_owned)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(_) => write!(f, "no X.509 certificate"),
            Self::NotRsa => {
                write!(
                    f,
                    "the certificate's key is not RSA, the only type that UEFI firmware accepts"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Damaged(error) => Some(error),
            Self::NotRsa => None,
        }
    }
}
