//! The public keys of those who sign tokens: PEM (RFC 7468), or a set of JSON Web Keys (RFC 7517).

use super::{Algorithm, Token};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::oid::db::rfc5912::{ID_EC_PUBLIC_KEY, RSA_ENCRYPTION, SECP_256_R_1};
use x509_cert::der::{Decode, Reader, SliceReader};
use x509_cert::spki::SubjectPublicKeyInfoRef;

/// The most keys of an issuer, and bytes of their text.
pub const MAX_KEYS: usize = 8;
const MAX_TEXT: usize = 32 << 10;

/// The bits that an RSA key may have. The time of a verification grows with their square.
const MIN_BITS: usize = 2048;
const MAX_BITS: usize = 4096;

/// The bytes of a point of P-256 that is not compressed: the tag and two coordinates.
const POINT: usize = 65;
const UNCOMPRESSED: u8 = 4;

/// The beginning of a PEM block, and the refusal of one with a private key.
const PEM_BEGIN: &str = "-----BEGIN ";
const PRIVATE: &str = "a private key must not leave the cluster: give the public one alone";

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// Its name in tokens (`kid`).
    id: Option<String>,
    numbers: Numbers,
}

/// Identifies a key, whatever form it was given in.
pub type Thumbprint = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256([u8; POINT]),
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<WrittenKey>,
}

#[derive(Deserialize)]
struct WrittenKey {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
    /// The private part of each kind of key.
    #[serde(default)]
    d: Option<IgnoredAny>,
}

impl PublicKey {
    /// The keys of a text, which is PEM or a set of JSON Web Keys: at least one.
    ///
    /// # Errors
    /// It has something else, or keys that no token may be signed with.
    pub fn all(text: &str) -> Result<Vec<PublicKey>, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("the keys have more than {MAX_TEXT} bytes"));
        }
        let keys = match text.trim_start().starts_with('{') {
            true => of_set(text)?,
            false => of_pem(text)?,
        };
        match keys.len() {
            0 => Err("`publicKeys` has no key".to_owned()),
            1..=MAX_KEYS => Ok(keys),
            _ => Err(format!("an issuer has at most {MAX_KEYS} keys")),
        }
    }

    /// Its thumbprint.
    pub fn thumbprint(&self) -> Thumbprint {
        let digest = match &self.numbers {
            Numbers::Rsa { modulus, exponent } => {
                Sha256::new().chain_update(modulus).chain_update([0]).chain_update(exponent)
            }
            Numbers::P256(point) => Sha256::new().chain_update(point),
        };
        digest.finalize().into()
    }

    /// Returns whether this is its name in tokens.
    pub fn is_named(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// Verifies the signature of a token: returns whether this key has made it.
    pub fn verifies(&self, token: &Token) -> bool {
        let Token { algorithm, signed, signature, .. } = token;
        match (&self.numbers, algorithm) {
            (Numbers::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            (Numbers::P256(point), Algorithm::Es256) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed, signature).is_ok()
            }
            _ => false,
        }
    }
}

fn of_pem(text: &str) -> Result<Vec<PublicKey>, String> {
    if text.contains("PRIVATE KEY") {
        return Err(PRIVATE.to_owned());
    }
    let blocks = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes());
    let blocks = blocks.collect::<Result<Vec<_>, _>>().map_err(|error| format!("PEM: {error}"))?;
    if blocks.len() != text.matches(PEM_BEGIN).count() {
        return Err("`publicKeys` has a block that is no `PUBLIC KEY`".to_owned());
    }
    blocks.iter().map(|block| of_der(block)).collect()
}

/// A key in the form of X.509. Kubernetes names it by its digest.
fn of_der(der: &[u8]) -> Result<PublicKey, String> {
    let malformed = |error: x509_cert::der::Error| format!("a public key is malformed: {error}");
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(malformed)?;
    let bits = info.subject_public_key.as_bytes().ok_or("a public key is malformed")?;
    let curve = || info.algorithm.parameters?.decode_as::<ObjectIdentifier>().ok();
    let numbers = match info.algorithm.oid {
        RSA_ENCRYPTION => {
            let mut reader = SliceReader::new(bits).map_err(malformed)?;
            let parts = reader.sequence(|inner| {
                Ok([UintRef::decode(inner)?.as_bytes(), UintRef::decode(inner)?.as_bytes()])
            });
            let [modulus, exponent] = parts.map_err(malformed)?;
            reader.finish(()).map_err(malformed)?;
            rsa(modulus, exponent)?
        }
        ID_EC_PUBLIC_KEY if curve() == Some(SECP_256_R_1) => point(bits)?,
        _ => return Err(other()),
    };
    let id = Some(URL_SAFE_NO_PAD.encode(Sha256::digest(der)));
    Ok(PublicKey { id, numbers })
}

fn of_set(text: &str) -> Result<Vec<PublicKey>, String> {
    let set: KeySet = serde_json::from_str(text)
        .map_err(|error| format!("`publicKeys` is no set of JSON Web Keys: {error}"))?;
    set.keys.into_iter().map(of_json).collect()
}

fn of_json(written: WrittenKey) -> Result<PublicKey, String> {
    let WrittenKey { kty, kid, crv, n, e, x, y, d } = written;
    if d.is_some() {
        return Err(PRIVATE.to_owned());
    }
    let number = |text: &str| {
        let malformed = |_| "a JSON Web Key has a malformed number".to_owned();
        URL_SAFE_NO_PAD.decode(text).map_err(malformed)
    };
    let numbers = match (kty.as_str(), crv.as_str()) {
        ("RSA", _) => rsa(&number(&n)?, &number(&e)?)?,
        ("EC", "P-256") => point(&[vec![UNCOMPRESSED], number(&x)?, number(&y)?].concat())?,
        _ => return Err(other()),
    };
    Ok(PublicKey { id: kid, numbers })
}

fn other() -> String {
    "a public key is neither one of RSA nor one of the curve P-256".to_owned()
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Numbers, String> {
    let [modulus, exponent] = [modulus, exponent].map(|number| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number[zeros..].to_vec()
    });
    let bits = modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    if !(MIN_BITS..=MAX_BITS).contains(&bits) {
        return Err(format!("a key of RSA has {MIN_BITS} to {MAX_BITS} bits, not {bits}"));
    }
    // As all have it that are made today.
    match exponent[..] {
        [1, 0, 1] => Ok(Numbers::Rsa { modulus, exponent }),
        _ => Err("a key of RSA has the exponent 65537".to_owned()),
    }
}

fn point(bytes: &[u8]) -> Result<Numbers, String> {
    match <[u8; POINT]>::try_from(bytes) {
        Ok(point) if point[0] == UNCOMPRESSED => Ok(Numbers::P256(point)),
        _ => Err("a key of P-256 is no uncompressed point".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// A private key of OpenSSL's, as PEM.
    fn private(algorithm: &str, option: &str) -> String {
        let mut openssl = Command::new("openssl");
        openssl.args(["genpkey", "-quiet", "-algorithm", algorithm]);
        if !option.is_empty() {
            openssl.args(["-pkeyopt", option]);
        }
        let made = openssl.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap()
    }

    /// Its public key.
    fn public(private: &str) -> String {
        let mut openssl = Command::new("openssl");
        openssl.args(["pkey", "-pubout"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = openssl.spawn().unwrap();
        child.stdin.take().unwrap().write_all(private.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn keys_of_others_are_read_if_tokens_may_be_signed_with_them() {
        let of = |algorithm, option| public(&private(algorithm, option));
        let (rsa, p256) = (of("RSA", "rsa_keygen_bits:2048"), of("EC", "ec_paramgen_curve:P-256"));
        assert_eq!(PublicKey::all(&rsa).unwrap().len(), 1);
        assert_eq!(PublicKey::all(&(rsa.clone() + &p256)).unwrap().len(), 2);
        assert_eq!(PublicKey::all(&p256.repeat(8)).unwrap().len(), 8);
        let certificate = p256.replace("PUBLIC KEY", "CERTIFICATE");
        for (text, refusal) in [
            (p256.repeat(9), "at most 8"),
            (of("RSA", "rsa_keygen_bits:1024"), "2048 to 4096 bits, not 1024"),
            (of("EC", "ec_paramgen_curve:P-384"), "neither one of RSA"),
            (of("ED25519", ""), "neither one of RSA"),
            (private("EC", "ec_paramgen_curve:P-256"), "must not leave the cluster"),
            (rsa.clone() + &certificate, "no `PUBLIC KEY`"),
            (String::new(), "has no key"),
            ("key".to_owned(), "has no key"),
            ("{\"keys\": []}".to_owned(), "has no key"),
            (
                "{\"keys\": [{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}]}".to_owned(),
                "neither one of RSA",
            ),
            ("{\"keys\": [{\"kty\": \"EC\", \"d\": \"AQAB\"}]}".to_owned(), "must not leave"),
            (
                "{\"keys\": [{\"kty\": \"RSA\", \"n\": \"AQAB\", \"e\": \"AQAB\"}]}".to_owned(),
                "not 17",
            ),
            ("{\"keys\": [".to_owned(), "no set of JSON Web Keys"),
        ] {
            let reason = PublicKey::all(&text).unwrap_err();
            assert!(reason.contains(refusal), "{refusal}: {reason}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_token_or_keys_or_an_error(
            text in "\\PC{0,64}|[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}",
        ) {
            let _ = (Token::parse(&text), PublicKey::all(&text));
        }
    }
}
