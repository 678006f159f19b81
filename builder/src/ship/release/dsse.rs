//! Envelopes (DSSE) that a release key has signed.

use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::produce::sign::{ReleasePublicKey, ReleaseSigner};
use osbuild_envelope::{Envelope, to_be_signed};

/// Signs a payload of type `kind` and puts it into an envelope. `name` is for the signer.
///
/// # Errors
/// The key cannot sign.
pub fn seal(name: &str, kind: &str, payload: &[u8], key: &dyn ReleaseSigner) -> Result<Vec<u8>> {
    let signature = key.sign(name, &to_be_signed(kind, payload))?;
    let keyid = Digest::of(key.public().bytes()).hex();
    Ok(osbuild_envelope::seal(kind, payload, &keyid, &signature).into_bytes())
}

/// Returns the payload of type `kind` from an envelope with a signature by one of `keys`.
///
/// # Errors
/// It is not an envelope, has a different type, or has no such signature (`Kind::Digest`).
pub fn open(bytes: &[u8], kind: &str, keys: &[ReleasePublicKey]) -> Result<Vec<u8>> {
    let envelope = Envelope::parse(bytes).map_err(|error| {
        let what = error.to_string();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        cause.map_or_else(|| Error::digest(&what), |cause| Error::digest(&what).cause(cause))
    })?;
    if envelope.payload_type != kind {
        let what = format!("its payload is {:?}, not `{kind}`", envelope.payload_type);
        return Err(Error::digest(what));
    }
    let is_signed = envelope
        .is_signed(|message, signature| keys.iter().any(|key| key.verifies(message, signature)));
    if is_signed {
        Ok(envelope.payload)
    } else {
        Err(Error::digest("it is not signed by the release key".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::produce::sign::ReleaseKey;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

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
