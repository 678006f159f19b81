//! Keys of WireGuard: 32 bytes, which people write in base64.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::super::super::super::REDACTED;
use crate::Refusal;

/// Bytes of a key.
pub const KEY: usize = 32;

/// The key by which a peer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY]);

/// A key that nobody else has. Neither `Debug` nor `Display` shows it, and its memory is
/// overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(Zeroizing<[u8; KEY]>);

impl PublicKey {
    /// Takes the bytes.
    pub fn new(bytes: [u8; KEY]) -> Self {
        Self(bytes)
    }

    /// Reads base64.
    ///
    /// # Errors
    /// It is not 32 bytes.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let refuse = || {
            let start: String = word.chars().take(44).collect();
            Refusal::malformed(format!("`{start}` is not a public key: 32 bytes in base64"))
        };
        bytes_of(word).map(|bytes| Self(*bytes)).ok_or_else(refuse)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; KEY] {
        &self.0
    }
}

impl SecretKey {
    /// Takes the bytes.
    pub fn new(bytes: [u8; KEY]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads base64. `of` is the field that has it.
    ///
    /// # Errors
    /// It is not 32 bytes, or all of them are zero, which stands for no key. The reason does not
    /// show it.
    pub fn parse(of: &str, word: &str) -> Result<Self, Refusal> {
        let key = bytes_of(word).filter(|bytes| **bytes != [0; KEY]).map(Self);
        let reason =
            || format!("the {of} of a WireGuard link is 32 bytes in base64, of `wg genkey`");
        key.ok_or_else(|| Refusal::malformed(reason()))
    }

    /// The bytes.
    pub fn reveal(&self) -> &[u8; KEY] {
        &self.0
    }

    /// Base64 of it.
    pub fn reveal_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0.as_slice()))
    }

    /// The same key as the kernel keeps it: of a private key for Curve25519, some bits are fixed
    /// (RFC 7748, 5).
    #[must_use]
    pub fn clamped(&self) -> Self {
        let mut bytes = self.0.clone();
        bytes[0] &= 0xf8;
        bytes[KEY - 1] = bytes[KEY - 1] & 0x7f | 0x40;
        Self(bytes)
    }
}

/// Reads the one way in which 32 bytes are written.
fn bytes_of(word: &str) -> Option<Zeroizing<[u8; KEY]>> {
    let read = Zeroizing::new(STANDARD.decode(word).ok()?);
    let bytes = <[u8; KEY]>::try_from(read.as_slice()).ok()?;
    Some(Zeroizing::new(bytes))
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
