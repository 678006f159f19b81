//! A key in AWS KMS. It signs there and never leaves.

use super::RsaKey;
use crate::engine::digest::Digest;
use crate::error::{Context, Error, Result};
use crate::produce::aws::{Action, Answer, Cloud, Live, Region, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::asn1::{AnyRef, BitStringRef};
use der::{Reader, SliceReader};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// RSASSA-PKCS1-v1_5 with SHA-256, as KMS calls it.
const ALGORITHM: &str = "RSASSA_PKCS1_V1_5_SHA_256";

/// Where a key is: `arn:aws:kms:REGION:ACCOUNT:key/ID`, or `…:alias/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsArn {
    region: Region,
    text: String,
}

impl KmsArn {
    /// Whether a text is meant to be one.
    pub fn is_meant_by(text: &str) -> bool {
        text.trim_start().starts_with("arn:")
    }
}

impl FromStr for KmsArn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let wrong = || {
            Error::usage(format!("`{text}` names no key in AWS KMS"))
                .hint("for example arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab")
        };
        let [_, partition, service, region, _, key] =
            <[&str; 6]>::try_from(text.splitn(6, ':').collect::<Vec<_>>()).map_err(|_| wrong())?;
        let names_one = ["key/", "alias/"]
            .iter()
            .any(|kind| key.strip_prefix(kind).is_some_and(|name| !name.is_empty()));
        match partition.starts_with("aws") && service == "kms" && names_one {
            true => Ok(KmsArn { region: region.parse()?, text: text.to_owned() }),
            false => Err(wrong()),
        }
    }
}

/// A key in KMS of any kind, for whose use this process has credentials.
pub(super) struct Kms {
    cloud: Live,
    arn: KmsArn,
}

impl Kms {
    /// Finds the key, which has to sign and to be of this kind, as KMS names kinds, and gives its
    /// `SubjectPublicKeyInfo` in DER too.
    ///
    /// # Errors
    /// KMS does not answer, does not allow it, or the key is another kind of key.
    pub fn open(arn: &KmsArn, kind: &str, wanted: &str) -> Result<(Self, Vec<u8>)> {
        let kms = Kms { cloud: Live::usual(), arn: arn.clone() };
        let found = kms.call(Action::GetPublicKey, &json!({ "KeyId": arn.text }))?;
        let json = kms.said(Action::GetPublicKey, found.json())?;
        let text =
            |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if text("KeyUsage") != "SIGN_VERIFY" || text("KeySpec") != kind {
            return Err(kms.is_none(wanted).cause(format!(
                "it is `{}` for `{}`",
                text("KeySpec"),
                text("KeyUsage")
            )));
        }
        let public =
            STANDARD.decode(text("PublicKey")).or_build(|| "KMS gave no public key".to_owned())?;
        Ok((kms, public))
    }

    /// The error that the key is not `wanted`.
    pub fn is_none(&self, wanted: &str) -> Error {
        Error::build(format!("`{}` is no {wanted}", self.arn.text))
    }

    /// The signature of what has this digest, by the algorithm that KMS calls so.
    pub fn sign(&self, digest: &Digest, algorithm: &str) -> Result<Vec<u8>> {
        let content = json!({ "KeyId": self.arn.text, "Message": STANDARD.encode(digest.hash()), "MessageType": "DIGEST",
            "SigningAlgorithm": algorithm });
        let answer = self.call(Action::Sign, &content)?;
        let signature = self.said(Action::Sign, answer.member("Signature"))?;
        STANDARD.decode(signature).or_build(|| "KMS gave no signature".to_owned())
    }

    fn call(&self, action: Action, content: &Value) -> Result<Answer> {
        self.said(action, self.cloud.call(&self.arn.region, &Request::json(action, "/", content)))
    }

    fn said<T>(
        &self,
        action: Action,
        done: std::result::Result<T, crate::produce::aws::Failure>,
    ) -> Result<T> {
        done.map_err(|failure| {
            failure.error(action, &self.arn.region).cause(format!("the key is `{}`", self.arn.text))
        })
    }
}

impl fmt::Debug for Kms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kms").field(&self.arn.text).finish()
    }
}

/// An RSA key in KMS.
#[derive(Debug)]
pub struct KmsKey {
    kms: Kms,
    public: Vec<u8>,
}

impl KmsKey {
    /// Asks KMS for the public half of the key.
    ///
    /// # Errors
    /// KMS does not answer, does not allow it, or the key is none of RSA with 2048 bits that signs.
    /// KMS has larger ones, but firmware is promised to take no larger one (UEFI 2.10, 32.4.1), and
    /// some starts nothing that one has signed.
    pub fn open(arn: &KmsArn) -> Result<Self> {
        let wanted = "RSA key of 2048 bits that signs";
        let (kms, spki) = Kms::open(arn, "RSA_2048", wanted)?;
        let public = rsa_public_key(&spki).ok_or_else(|| kms.is_none(wanted))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_names_a_key_and_its_region() {
        let text = "arn:aws:kms:eu-central-1:111122223333:alias/osbuild\n";
        assert_eq!(text.parse::<KmsArn>().unwrap().region.name(), "eu-central-1");
        for wrong in [
            "",
            "arn:aws:kms",
            "arn:aws:s3:eu-central-1:1:key/x",
            "arn:aws:kms:eu:1:key/x",
            "arn:aws:kms:eu-central-1:1:key/",
        ] {
            assert!(wrong.parse::<KmsArn>().is_err(), "{wrong}");
        }
    }
}
