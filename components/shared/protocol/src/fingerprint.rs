//! The fingerprint of a certificate.

use std::fmt;

use crate::Refusal;

/// The prefix of the digits: the name of the hash algorithm.
const ALGORITHM: &str = "sha256:";

/// SHA-256 of a certificate in DER: `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// That of the certificate with this SHA-256.
    pub fn of(digest: &[u8; 32]) -> Self {
        let digits = digest.iter().map(|byte| format!("{byte:02x}"));
        Self(std::iter::once(ALGORITHM.to_owned()).chain(digits).collect())
    }

    /// Reads one.
    ///
    /// # Errors
    /// It has another form.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let digits = word.strip_prefix(ALGORITHM).unwrap_or_default();
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match digits.len() == 64 && digits.bytes().all(is_digit) {
            true => Ok(Self(word.to_owned())),
            false => Err(Refusal::malformed(format!("`{word}` is not a fingerprint"))),
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_reads_back() {
        let made = Fingerprint::of(&[0x0a; 32]);
        let text = format!("sha256:{}", "0a".repeat(32));
        assert_eq!((made.to_string(), Fingerprint::parse(&text)), (text.clone(), Ok(made)));
        let short = &text[..text.len() - 1];
        for wrong in ["", "sha256:", &text[7..], short, &format!("{text}0"), &text.to_uppercase()] {
            assert!(Fingerprint::parse(wrong).is_err(), "{wrong}");
        }
    }
}
