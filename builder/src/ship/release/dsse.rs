//! A signed envelope (DSSE 1.0, <https://github.com/secure-systems-lab/dsse>).

use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::produce::sign::{ReleasePublicKey, ReleaseSigner};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<Signature>,
}

#[derive(Serialize, Deserialize)]
struct Signature {
    keyid: String,
    sig: String,
}

/// Signs a payload of type `kind` and puts it into an envelope. `name` is for the signer.
///
/// # Errors
/// The key cannot sign.
pub fn seal(name: &str, kind: &str, payload: &[u8], key: &dyn ReleaseSigner) -> Result<Vec<u8>> {
    let sig = STANDARD.encode(key.sign(name, &to_be_signed(kind, payload))?);
    let signatures = vec![Signature { keyid: Digest::of(key.public().bytes()).hex(), sig }];
    let envelope =
        Envelope { payload_type: kind.to_owned(), payload: STANDARD.encode(payload), signatures };
    let mut text = serde_json::to_vec_pretty(&envelope).expect("strings always serialize");
    text.push(b'\n');
    Ok(text)
}

/// Returns the payload of type `kind` from an envelope with a signature by one of `keys`.
///
/// # Errors
/// It is not an envelope, has a different type, or has no such signature (`Kind::Digest`).
pub fn open(bytes: &[u8], kind: &str, keys: &[ReleasePublicKey]) -> Result<Vec<u8>> {
    let wrong = |what: String| Error::digest(what);
    let envelope: Envelope = serde_json::from_slice(bytes)
        .map_err(|error| wrong("it is not a DSSE envelope".to_owned()).cause(error))?;
    if envelope.payload_type != kind {
        return Err(wrong(format!("its payload is {:?}, not `{kind}`", envelope.payload_type)));
    }
    let payload = STANDARD
        .decode(&envelope.payload)
        .map_err(|error| wrong("its payload is not Base64".to_owned()).cause(error))?;
    let message = to_be_signed(kind, &payload);
    let signatures =
        envelope.signatures.iter().filter_map(|signature| STANDARD.decode(&signature.sig).ok());
    let is_good = signatures
        .into_iter()
        .any(|signature| keys.iter().any(|key| key.verifies(&message, &signature)));
    if is_good { Ok(payload) } else { Err(wrong("it is not signed by the release key".to_owned())) }
}

/// The pre-authentication encoding.
fn to_be_signed(kind: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::produce::sign::ReleaseKey;

    #[test]
    fn the_signed_bytes_match_the_specifications_example() {
        let expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(to_be_signed("http://example.com/HelloWorld", b"hello world"), expected);
    }

    #[test]
    fn an_envelope_opens_only_for_its_key_and_its_type() {
        let (key, other) =
            (ReleaseKey::generate().unwrap(), ReleaseKey::generate().unwrap().public());
        let sealed = seal("x", "text/plain", b"hello", &key).unwrap();
        assert_eq!(open(&sealed, "text/plain", &[other, key.public()]).unwrap(), b"hello");
        assert!(open(&sealed, "text/html", &[key.public()]).is_err());
        assert!(open(&sealed, "text/plain", &[other]).is_err());
        let text = String::from_utf8(sealed).unwrap();
        let changed = text.replace(&STANDARD.encode(b"hello"), &STANDARD.encode(b"hullo"));
        assert!(open(changed.as_bytes(), "text/plain", &[key.public()]).is_err());
    }
}
