//! KMS: signing keys that never leave it.

use super::{Action, Failure, Region, RegionalClient, Request, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::fmt;
use std::str::FromStr;

/// The ARN of a key: `arn:aws:kms:REGION:ACCOUNT:key/ID` or `…:alias/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyArn {
    region: Region,
    text: String,
}

/// A text that is not the ARN of a key in KMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArn(pub String);

/// The public half of a key.
pub struct PublicKey {
    /// The kind of key, such as `RSA_2048`.
    pub spec: String,
    /// The allowed use of the key; `SIGN_VERIFY` for a signing key.
    pub usage: String,
    /// Its `SubjectPublicKeyInfo` in DER.
    pub spki: Vec<u8>,
}

impl KeyArn {
    /// Whether a text looks like an ARN.
    pub fn is_arn(text: &str) -> bool {
        text.trim_start().starts_with("arn:")
    }

    /// The region of the key.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl FromStr for KeyArn {
    type Err = InvalidArn;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidArn> {
        let text = text.trim();
        let invalid = || InvalidArn(text.to_owned());
        let [_, partition, service, region, _, key] =
            <[&str; 6]>::try_from(text.splitn(6, ':').collect::<Vec<_>>())
                .map_err(|_| invalid())?;
        let names_a_key = ["key/", "alias/"]
            .iter()
            .any(|kind| key.strip_prefix(kind).is_some_and(|name| !name.is_empty()));
        if !partition.starts_with("aws") || service != "kms" || !names_a_key {
            return Err(invalid());
        }
        Ok(KeyArn { region: region.parse().map_err(|_| invalid())?, text: text.to_owned() })
    }
}

impl fmt::Display for KeyArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for InvalidArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not the ARN of a key in AWS KMS", self.0)
    }
}

impl std::error::Error for InvalidArn {}

impl RegionalClient<'_> {
    /// The public half of a key.
    pub fn public_key(&self, key: &KeyArn) -> Result<PublicKey> {
        let request = Request::json(Action::GetPublicKey, "/", &json!({ "KeyId": key.text }));
        self.call(&request, |response| {
            Ok(PublicKey {
                spec: response.member("KeySpec")?,
                usage: response.member("KeyUsage")?,
                spki: decode(&response.member("PublicKey")?)?,
            })
        })
    }

    /// Signs a SHA-256 digest with one of KMS's algorithms, such as `ECDSA_SHA_256`.
    pub fn sign(&self, key: &KeyArn, digest: &[u8; 32], algorithm: &str) -> Result<Vec<u8>> {
        let content = json!({
            "KeyId": key.text,
            "Message": STANDARD.encode(digest),
            "MessageType": "DIGEST",
            "SigningAlgorithm": algorithm,
        });
        let request = Request::json(Action::Sign, "/", &content);
        self.call(&request, |response| decode(&response.member("Signature")?))
    }
}

fn decode(base64: &str) -> std::result::Result<Vec<u8>, Failure> {
    STANDARD
        .decode(base64)
        .map_err(|error| Failure::Invalid(format!("the response is not Base64: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_names_a_key_and_its_region() {
        let text = "arn:aws:kms:eu-central-1:111122223333:alias/osbuild\n";
        assert_eq!(text.parse::<KeyArn>().unwrap().region.name(), "eu-central-1");
        for wrong in [
            "",
            "arn:aws:kms",
            "arn:aws:s3:eu-central-1:1:key/x",
            "arn:aws:kms:eu:1:key/x",
            "arn:aws:kms:eu-central-1:1:key/",
        ] {
            assert!(wrong.parse::<KeyArn>().is_err(), "{wrong}");
        }
    }
}
