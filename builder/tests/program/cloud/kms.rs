//! KMS with one key.

use super::wire::Call;
use super::{Answer, KEY_SIZE, State};
use aws_lc_rs::digest;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The key's name.
pub const ARN: &str = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";

pub fn key() -> RsaKeyPair {
    RsaKeyPair::generate(KEY_SIZE).unwrap()
}

pub fn answer(_state: &mut State, call: &Call, key: &RsaKeyPair) -> Answer {
    let said: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(said["KeyId"], ARN);
    if call.action == "GetPublicKey" {
        let spki = key.public_key().as_der().unwrap();
        let public = STANDARD.encode(spki.as_ref());
        return (200, json!({ "KeySpec": "RSA_2048", "KeyUsage": "SIGN_VERIFY", "PublicKey": public }).to_string());
    }
    assert_eq!((&said["MessageType"], &said["SigningAlgorithm"]), (&json!("DIGEST"), &json!("RSASSA_PKCS1_V1_5_SHA_256")));
    let hash = STANDARD.decode(said["Message"].as_str().unwrap()).unwrap();
    let hash = digest::Digest::import_less_safe(&hash, &digest::SHA256).unwrap();
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign_digest(&RSA_PKCS1_SHA256, &hash, &mut signature).unwrap();
    (200, json!({ "Signature": STANDARD.encode(signature) }).to_string())
}
