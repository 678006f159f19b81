//! Which documents on volumes count: those that a release key has signed, as the root of trust in
//! the image names it, or all of them if the recipe says so.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild_envelope::{Audience, DocumentType, Envelope, MachineId};
use osbuild_failure::{Explain, Failure, Outcome};
use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey, VerificationAlgorithm};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The files in the folder that the builder makes from the recipe.
const ROOT: &str = "root.json";
const UNSIGNED: &str = "unsigned";
/// The bytes before a P-256 key in a `SubjectPublicKeyInfo` (RFC 5480, 2).
const P256_SPKI: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Which documents count.
#[derive(Clone, Debug)]
pub enum Trust {
    /// All of them.
    Anyone,
    /// Those that one of these keys has signed.
    Signers(Vec<Key>),
}

/// A public key of releases.
#[derive(Clone, Debug)]
pub struct Key {
    kind: Kind,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ed25519,
    P256,
}

/// A document whose signature was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The document.
    pub text: String,
    /// Whether it is for this machine alone, and which document of it that replaces.
    pub audience: Option<Audience>,
}

impl Trust {
    /// Reads the folder of the image.
    ///
    /// # Errors
    /// The folder has neither file, or a root of trust without a known key.
    pub fn read(folder: &Path) -> Outcome<Self> {
        if folder.join(UNSIGNED).exists() {
            return Ok(Self::Anyone);
        }
        let path = folder.join(ROOT);
        let what = || format!("read {}", path.display());
        let bytes = fs::read(&path).explain(what())?;
        let root: Value = serde_json::from_slice(&bytes).explain(what())?;
        let root = &root["signed"];
        let ids = root["roles"]["targets"]["keyids"].as_array().map_or(&[][..], Vec::as_slice);
        let keys = ids.iter().filter_map(|id| Key::parse(&root["keys"][id.as_str()?]));
        let keys: Vec<Key> = keys.collect();
        match keys.is_empty() {
            true => Err(Failure::new(format!("{} names no known key of releases", path.display()))),
            false => Ok(Self::Signers(keys)),
        }
    }

    /// Opens a document, which may be in an envelope, on the machine `here`.
    ///
    /// # Errors
    /// It is not signed although it has to be, or is for another machine.
    pub fn open(&self, text: &str, here: Option<&MachineId>) -> Outcome<Opened> {
        // A document begins with no brace: TOML has no such line.
        if !text.trim_start().starts_with('{') {
            return match self {
                Self::Anyone => Ok(Opened { text: text.to_owned(), audience: None }),
                Self::Signers(_) => Err(Failure::new("it is not signed: see `osbuild node sign`")),
            };
        }
        let envelope = Envelope::parse(text.as_bytes()).explain("it begins with a brace")?;
        let kind = DocumentType::parse(&envelope.payload_type).ok_or_else(|| {
            Failure::new(format!("its payload is {:?}, not a node document", envelope.payload_type))
        })?;
        if let Self::Signers(keys) = self
            && !envelope.is_signed(|message, signature| {
                keys.iter().any(|key| key.verifies(message, signature))
            })
        {
            return Err(Failure::new("it is not signed by the release key of this image"));
        }
        match (kind.audience.as_ref().map(|audience| &audience.machine), here) {
            (Some(machine), Some(here)) if machine != here => {
                Err(Failure::new(format!("it is for the machine {machine}, and this is {here}")))
            }
            (Some(machine), None) => Err(Failure::new(format!(
                "it is for the machine {machine}, and the firmware of this one has no identifier"
            ))),
            _ => {
                let text = String::from_utf8(envelope.payload)
                    .map_err(|_| Failure::new("it is not text in UTF-8"))?;
                Ok(Opened { text, audience: kind.audience })
            }
        }
    }
}

impl Key {
    /// Reads a key of TUF's metadata; none of another kind.
    fn parse(key: &Value) -> Option<Self> {
        let public = key["keyval"]["public"].as_str()?;
        match key["scheme"].as_str()? {
            "ed25519" => Some(Key { kind: Kind::Ed25519, bytes: hex(public)? }),
            "ecdsa-sha2-nistp256" => {
                let base64: String =
                    public.lines().filter(|line| !line.starts_with("-----")).collect();
                let der = STANDARD.decode(base64).ok()?;
                Some(Key { kind: Kind::P256, bytes: der.strip_prefix(P256_SPKI)?.to_vec() })
            }
            _ => None,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match self.kind {
            Kind::Ed25519 => &ED25519,
            Kind::P256 => &ECDSA_P256_SHA256_ASN1,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok()
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
