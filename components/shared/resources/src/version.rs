//! Versions of a resource.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU64;

/// How often the resource was written. A stored resource always has a version; a client that has
/// not read the resource yet writes `undefined`, which is `None` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version of a resource that was just created.
    pub const FIRST: Version = Version(NonZeroU64::MIN);

    /// The word for the lack of a version.
    pub const UNDEFINED: &str = "undefined";

    /// The version after this one.
    pub fn next(self) -> Version {
        Version(self.0.saturating_add(1))
    }

    /// Reads a decimal number, or `undefined`.
    pub fn parse(text: &str) -> Result<Option<Version>, InvalidVersion> {
        if text == Version::UNDEFINED {
            return Ok(None);
        }
        text.parse().map(|number| Some(Version(number))).map_err(|_| InvalidVersion(text.into()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is no version.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidVersion(String);

impl fmt::Display for InvalidVersion {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "`{}` is no version: a number from 1 up, or `undefined`", self.0)
    }
}

impl Error for InvalidVersion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_decimal_number_or_undefined() {
        assert_eq!(Version::parse("1"), Ok(Some(Version::FIRST)));
        assert_eq!(Version::parse("2"), Ok(Some(Version::FIRST.next())));
        assert_eq!(Version::parse("undefined"), Ok(None));
        for text in ["", "0", "-1", "1.0", "0x1", "Undefined"] {
            assert_eq!(Version::parse(text), Err(InvalidVersion(text.into())), "{text}");
        }
    }

    #[test]
    fn a_printed_version_is_read_back() {
        let version = Version::FIRST.next().next();
        assert_eq!(Version::parse(&version.to_string()), Ok(Some(version)));
    }
}
