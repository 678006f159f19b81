//! KMS with three keys: one that signs images, one that signs releases, and an RSA key that is
//! larger than firmware must support.

use super::wire::Call;
use super::{Answer, KEY_SIZE, State};
use aws_lc_rs::digest;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The ARN of the RSA key.
pub const ARN: &str =
    "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
/// The ARN of the key on P-256.
pub const P256_ARN: &str = "arn:aws:kms:eu-central-1:111122223333:alias/releases";
/// The ARN of a larger RSA key.
pub const RSA_4096_ARN: &str = "arn:aws:kms:eu-central-1:111122223333:alias/large";

/// The keys.
pub struct Keys {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
}

impl Keys {
    pub fn new() -> Self {
        Keys {
            rsa: RsaKeyPair::generate(KEY_SIZE).unwrap(),
            p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap(),
        }
    }
}

pub fn answer(_state: &mut State, call: &Call, keys: &Keys) -> Answer {
    let request: Value = serde_json::from_slice(&call.body).unwrap();
    let is_rsa = match request["KeyId"].as_str() {
        Some(ARN | RSA_4096_ARN) => true,
        Some(P256_ARN) => false,
        other => panic!("unknown key {other:?}"),
    };
    if call.action == "GetPublicKey" {
        let (kind, public) = match is_rsa {
            true => (
                if request["KeyId"] == ARN { "RSA_2048" } else { "RSA_4096" },
                keys.rsa.public_key().as_der().unwrap().as_ref().to_vec(),
            ),
            false => (
                "ECC_NIST_P256",
                AsDer::<aws_lc_rs::encoding::PublicKeyX509Der>::as_der(keys.p256.public_key())
                    .unwrap()
                    .as_ref()
                    .to_vec(),
            ),
        };
        let public = STANDARD.encode(public);
        return (
            200,
            json!({ "KeySpec": kind, "KeyUsage": "SIGN_VERIFY", "PublicKey": public }).to_string(),
        );
    }
    assert_ne!(request["KeyId"], RSA_4096_ARN, "the large key must not sign");
    let algorithm = if is_rsa { "RSASSA_PKCS1_V1_5_SHA_256" } else { "ECDSA_SHA_256" };
    assert_eq!(
        (&request["MessageType"], &request["SigningAlgorithm"]),
        (&json!("DIGEST"), &json!(algorithm))
    );
    let hash = STANDARD.decode(request["Message"].as_str().unwrap()).unwrap();
    let hash = digest::Digest::import_less_safe(&hash, &digest::SHA256).unwrap();
    (200, json!({ "Signature": STANDARD.encode(signature(keys, is_rsa, &hash)) }).to_string())
}

fn signature(keys: &Keys, is_rsa: bool, hash: &digest::Digest) -> Vec<u8> {
    if !is_rsa {
        return keys.p256.sign_digest(hash).unwrap().as_ref().to_vec();
    }
    let mut signature = vec![0; keys.rsa.public_modulus_len()];
    keys.rsa.sign_digest(&RSA_PKCS1_SHA256, hash, &mut signature).unwrap();
    signature
}
