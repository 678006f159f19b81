//! Certificate authorities that the node's own programs trust beside those of the image.

use std::fmt;

use super::Authorities;
use crate::Refusal;

/// The maximum number of settings with such authorities.
pub const MAX_ROOTS: usize = 8;
/// The maximum bytes of a name.
const MAX_NAME: usize = 63;
/// The maximum bytes of a value, so that it fits in the line of a request or a reply.
const MAX_LENGTH: usize = 3584;

/// Authorities of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedRoot {
    name: RootName,
    certificates: Authorities,
}

/// The name of the authorities.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootName(String);

impl TrustedRoot {
    /// Combines what was read.
    ///
    /// # Errors
    /// There is no certificate, or they are too long.
    pub fn new(name: RootName, certificates: Authorities) -> Result<Self, Refusal> {
        if certificates.is_empty() {
            return Err(Refusal::malformed(format!("`{name}` has no certificate")));
        }
        match certificates.to_string().len() <= MAX_LENGTH {
            true => Ok(Self { name, certificates }),
            false => {
                let reason =
                    format!("the certificates of `{name}` take more than {MAX_LENGTH} bytes");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// Reads the certificates, with commas between.
    pub(super) fn parse_words(name: RootName, words: &str) -> Result<Self, Refusal> {
        Self::new(name, Authorities::parse(words)?)
    }

    /// The name.
    pub fn name(&self) -> &RootName {
        &self.name
    }

    /// The certificates.
    pub fn certificates(&self) -> &Authorities {
        &self.certificates
    }
}

impl RootName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not 1 to 63 lower-case letters, digits, dots and dashes, the first of them a letter or
    /// a digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().next().is_some_and(is_inside)
            && text.bytes().all(|byte| is_inside(byte) || b".-".contains(&byte));
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let reason = format!(
                    "`{start}` is not the name of authorities: lower-case letters, digits, `.` and \
                     `-`"
                );
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, words: &str) -> Result<TrustedRoot, Refusal> {
        TrustedRoot::parse_words(RootName::parse(name)?, words)
    }

    #[test]
    fn authorities_have_a_name_and_some_certificates() {
        assert_eq!(read("a.b-7", "MIIB,MIIC").unwrap().certificates().len(), 2);
        let long = format!("MI{}", "A".repeat(MAX_LENGTH - 2));
        assert!(read("a", &long).is_ok());
        for (name, words) in [
            ("", "MIIB"),
            ("A", "MIIB"),
            ("-a", "MIIB"),
            (".", "MIIB"),
            ("..", "MIIB"),
            ("a/b", "MIIB"),
            ("a b", "MIIB"),
            (&"a".repeat(MAX_NAME + 1), "MIIB"),
            ("a", ""),
            ("a", "/etc/ca.crt"),
            ("a", "MIIB MIIB"),
            ("a", "MIIB,MIIB,MIIB,MIIB,MIIB"),
            ("a", &format!("{long}AAAA")),
        ] {
            assert!(read(name, words).is_err(), "{name} {words}");
        }
    }
}
