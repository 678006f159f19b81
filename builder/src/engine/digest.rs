//! Digests: SHA-256 and length of some bytes, as in the Remote Execution API.

use super::fs_error::IoContext;
use super::sparse::SparseFile;
use crate::error::Result;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

/// The number of bytes that are read at once to hash or copy a file.
pub const CHUNK: usize = 256 * 1024;

/// SHA-256 and length of some bytes. Its display form is the hash in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    hash: [u8; 32],
    size: u64,
}

impl Digest {
    /// The digest with these values.
    pub fn new(hash: [u8; 32], size: u64) -> Self {
        Digest { hash, size }
    }

    /// A digest from 64 lower-case hexadecimal digits; `None` when `hex` is not that.
    pub fn parse(hex: &str, size: u64) -> Option<Self> {
        Some(Digest { hash: parse_hash(hex)?, size })
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Digest { hash: Sha256::digest(bytes).into(), size: bytes.len() as u64 }
    }

    /// The digest of the rest of `reader`.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = Hasher::new(io::sink());
        let mut chunk = vec![0; CHUNK];
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(hasher.digest()),
                read => hasher.write_all(&chunk[..read])?,
            }
        }
    }

    /// The digest of a file.
    pub fn of_file(path: &Path) -> Result<Self> {
        File::open(path).and_then(|file| Digest::of_whole(&file)).at("read", path)
    }

    /// The digest of an open file from its first byte. Leaves its position anywhere.
    pub fn of_whole(file: &File) -> io::Result<Self> {
        Digest::of_reader(SparseFile::new(file))
    }

    /// The SHA-256.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// The SHA-256 in lower-case hexadecimal.
    pub fn hex(&self) -> String {
        self.to_string()
    }

    /// The length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// A SHA-256 from 64 lower-case hexadecimal digits; `None` when `hex` is not that.
pub fn parse_hash(hex: &str) -> Option<[u8; 32]> {
    let digits = hex.as_bytes();
    if digits.len() != 64 || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A build formats tens of thousands of digests: one call of the formatter for all digits,
        // and a loop that is fast without optimization.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 64];
        let mut at = 0;
        while at < digits.len() {
            let byte = self.hash[at / 2];
            digits[at] = DIGITS[usize::from(byte >> 4)];
            digits[at + 1] = DIGITS[usize::from(byte & 15)];
            at += 2;
        }
        f.write_str(std::str::from_utf8(&digits).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}/{}", self.size)
    }
}

/// Parses `hash/size`, the text form of a digest in REAPI and the debug form of [`Digest`].
impl FromStr for Digest {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let (hex, size) = text.split_once('/').ok_or(())?;
        Digest::parse(hex, size.parse().map_err(|_| ())?).ok_or(())
    }
}

/// A writer that hashes all bytes on their way to another one.
pub struct Hasher<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Hasher<W> {
    /// Hashes the bytes that are written to `inner` from now on.
    pub fn new(inner: W) -> Self {
        Hasher { inner, hash: Sha256::new(), size: 0 }
    }

    /// The digest of the bytes so far.
    pub fn digest(&self) -> Digest {
        Digest { hash: self.hash.clone().finalize().into(), size: self.size }
    }

    /// The writer beneath.
    pub fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for Hasher<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_abc_is_the_one_in_fips_180() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.size(), 3);
        assert_eq!(Digest::of_reader(&b"abc"[..]).unwrap(), digest);
    }

    #[test]
    fn only_the_text_of_a_digest_parses() {
        let digest = Digest::of(b"x");
        assert_eq!(format!("{digest:?}").parse(), Ok(digest));
        assert_eq!(Digest::parse(&digest.hex().to_uppercase(), 1), None);
        assert_eq!(Digest::parse(&digest.hex()[1..], 1), None);
        assert_eq!(Digest::parse(&"é".repeat(32), 1), None);
    }
}
