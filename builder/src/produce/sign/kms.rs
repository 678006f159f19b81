//! RSA keys in AWS KMS, which sign images there and never leave it.

use super::RsaKey;
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::produce::aws;
use der::asn1::{AnyRef, BitStringRef};
use der::{Reader, SliceReader};
use osbuild_aws::{Client, KeyArn, RegionalClient};
use std::fmt;

/// KMS's name for RSASSA-PKCS1-v1_5 with SHA-256.
const ALGORITHM: &str = "RSASSA_PKCS1_V1_5_SHA_256";

/// A key of any type in KMS that this process has credentials for.
pub(super) struct Kms {
    client: Client,
    arn: KeyArn,
}

impl Kms {
    /// Looks up a key that signs and has this KMS key spec. Also returns its `SubjectPublicKeyInfo`
    /// in DER. `required` describes the key in errors.
    ///
    /// # Errors
    /// KMS cannot be reached or denies access, or the key has another spec or usage.
    pub fn open(arn: &KeyArn, spec: &str, required: &str) -> Result<(Self, Vec<u8>)> {
        let kms = Kms { client: aws::client()?, arn: arn.clone() };
        let key = kms.regional().public_key(arn).map_err(|error| kms.error(error))?;
        if key.usage != "SIGN_VERIFY" || key.spec != spec {
            let cause = format!("its key spec is `{}`, its usage `{}`", key.spec, key.usage);
            return Err(kms.is_not(required).cause(cause));
        }
        Ok((kms, key.spki))
    }

    /// The error that the key is not as `required`.
    pub fn is_not(&self, required: &str) -> Error {
        Error::build(format!("`{}` is not {required}", self.arn))
    }

    /// Signs a digest with an algorithm, as KMS names it.
    pub fn sign(&self, digest: &Digest, algorithm: &str) -> Result<Vec<u8>> {
        let signature = self.regional().sign(&self.arn, digest.hash(), algorithm);
        signature.map_err(|error| self.error(error))
    }

    fn regional(&self) -> RegionalClient<'_> {
        RegionalClient::new(&self.client, self.arn.region())
    }

    fn error(&self, error: osbuild_aws::Error) -> Error {
        Error::from(error).cause(format!("the key is `{}`", self.arn))
    }
}

impl fmt::Debug for Kms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kms").field(&self.arn).finish()
    }
}

/// An RSA key in KMS.
#[derive(Debug)]
pub struct KmsKey {
    kms: Kms,
    public: Vec<u8>,
}

impl KmsKey {
    /// Looks up the key and reads its public half.
    ///
    /// # Errors
    /// KMS cannot be reached or denies access, or the key is not a signing key of RSA with 2048
    /// bits. KMS has larger keys, but UEFI 2.10 (32.4.1) does not require firmware to support them,
    /// and some firmware does not.
    pub fn open(arn: &KeyArn) -> Result<Self> {
        let required = "an RSA key of 2048 bits for signing";
        let (kms, spki) = Kms::open(arn, "RSA_2048", required)?;
        let public = rsa_public_key(&spki).ok_or_else(|| kms.is_not(required))?;
        Ok(KmsKey { kms, public })
    }
}

impl RsaKey for KmsKey {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, digest: &Digest) -> Result<Vec<u8>> {
        self.kms.sign(digest, ALGORITHM)
    }
}

/// The `RSAPublicKey` in a `SubjectPublicKeyInfo` (RFC 5280, 4.1).
fn rsa_public_key(spki: &[u8]) -> Option<Vec<u8>> {
    let mut reader = SliceReader::new(spki).ok()?;
    let key = reader.sequence(|reader| {
        let _algorithm: AnyRef = reader.decode()?;
        reader.decode::<BitStringRef>()
    });
    Some(key.ok()?.as_bytes()?.to_vec())
}
