//! A signed envelope (DSSE 1.0, <https://github.com/secure-systems-lab/dsse>): a payload with its
//! type, and signatures of both. The crate has no cryptography: its callers sign and verify
//! [`to_be_signed`].

#![forbid(unsafe_code)]

mod document_type;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

pub use document_type::{Audience, DocumentType, MachineId};

/// An envelope that was read. Nothing about its signatures is known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The type of the payload.
    pub payload_type: String,
    /// The payload.
    pub payload: Vec<u8>,
    signatures: Vec<Vec<u8>>,
}

/// Why bytes are not an envelope.
#[derive(Debug)]
pub enum Error {
    /// They are not the JSON of one.
    Json(serde_json::Error),
    /// The payload is not base64.
    Payload(base64::DecodeError),
}

/// An envelope as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    payload_type: String,
    payload: String,
    signatures: Vec<Signature>,
}

#[derive(Serialize, Deserialize)]
struct Signature {
    keyid: String,
    sig: String,
}

impl Envelope {
    /// Reads an envelope.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let Stored { payload_type, payload, signatures } =
            serde_json::from_slice(bytes).map_err(Error::Json)?;
        let payload = STANDARD.decode(payload).map_err(Error::Payload)?;
        let signatures = signatures.iter().filter_map(|one| STANDARD.decode(&one.sig).ok());
        Ok(Envelope { payload_type, payload, signatures: signatures.collect() })
    }

    /// Whether `verifies` accepts one of the signatures. It gets the bytes that are signed and a
    /// signature.
    pub fn is_signed(&self, verifies: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let message = to_be_signed(&self.payload_type, &self.payload);
        self.signatures.iter().any(|signature| verifies(&message, signature))
    }
}

/// The envelope of a payload with one signature of [`to_be_signed`]. `keyid` is a hint for readers.
pub fn seal(payload_type: &str, payload: &[u8], keyid: &str, signature: &[u8]) -> String {
    let sig = STANDARD.encode(signature);
    let stored = Stored {
        payload_type: payload_type.to_owned(),
        payload: STANDARD.encode(payload),
        signatures: vec![Signature { keyid: keyid.to_owned(), sig }],
    };
    let mut text = serde_json::to_string_pretty(&stored).expect("strings always serialize");
    text.push('\n');
    text
}

/// The bytes that are signed: the pre-authentication encoding.
pub fn to_be_signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(_) => f.write_str("it is not a DSSE envelope"),
            Self::Payload(_) => f.write_str("its payload is not base64"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Payload(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_signed_bytes_match_the_specifications_example() {
        let expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(to_be_signed("http://example.com/HelloWorld", b"hello world"), expected);
    }

    #[test]
    fn another_type_or_payload_is_another_message() {
        let text = seal("text/plain", b"hello", "key", b"signature");
        let expected = to_be_signed("text/plain", b"hello");
        let is_signed = |text: &str| {
            let envelope = Envelope::parse(text.as_bytes()).unwrap();
            envelope
                .is_signed(|message, signature| message == expected && signature == b"signature")
        };
        assert!(is_signed(&text));
        assert!(!is_signed(&text.replace("text/plain", "text/html")));
        assert!(!is_signed(&text.replace(&STANDARD.encode("hello"), &STANDARD.encode("hullo"))));
        assert!(!is_signed(&text.replace(&STANDARD.encode("signature"), "")));
    }

    #[test]
    fn what_is_no_envelope_is_named() {
        for (text, reason) in [
            ("", "it is not a DSSE envelope"),
            ("{\"payloadType\": \"a\"}", "it is not a DSSE envelope"),
            ("{\"payloadType\": \"a\", \"payload\": \"?\", \"signatures\": []}", "base64"),
        ] {
            let error = Envelope::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_sealed_payload_is_read_back(kind in "[a-z/]{0,20}", payload: Vec<u8>, sig: Vec<u8>) {
            let read = Envelope::parse(seal(&kind, &payload, "", &sig).as_bytes()).unwrap();
            prop_assert_eq!(read, Envelope { payload_type: kind, payload, signatures: vec![sig] });
        }
    }
}
