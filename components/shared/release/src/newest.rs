//! The newest metadata of a repository that a client has seen, by which it refuses older ones.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The versions of the root and timestamp metadata. A new root may have new keys, so the version of
/// the timestamp may restart with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Newest {
    /// The version of the root.
    pub root: u64,
    /// The version of the timestamp.
    pub timestamp: u64,
}

/// Metadata that are older than those that were seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Older {
    found: Newest,
    before: Newest,
}

/// A text that is not a [`Newest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Newest {
    /// Compares the versions found with those of `before`. Returns whether they are newer.
    ///
    /// # Errors
    /// They are older.
    pub fn is_newer_than(self, before: Newest) -> Result<bool, Older> {
        if self < before { Err(Older { found: self, before }) } else { Ok(self > before) }
    }
}

/// The text of the file in which a client keeps them.
impl Display for Newest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.root, self.timestamp)
    }
}

impl FromStr for Newest {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let (root, timestamp) = text.trim_end().split_once(' ').ok_or(Malformed)?;
        let number = |text: &str| text.parse().map_err(|_| Malformed);
        Ok(Newest { root: number(root)?, timestamp: number(timestamp)? })
    }
}

impl Display for Older {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Older { found, before } = self;
        if found.root < before.root {
            return write!(
                out,
                "the repository has keys of version {}, which version {} has replaced",
                found.root, before.root
            );
        }
        write!(
            out,
            "the repository's metadata have version {}, older than version {} seen before",
            found.timestamp, before.timestamp
        )
    }
}

impl std::error::Error for Older {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_root_counts_before_the_timestamp() {
        let newest = |root, timestamp| Newest { root, timestamp };
        let before = newest(2, 5);
        assert_eq!(newest(2, 5).is_newer_than(before), Ok(false));
        assert_eq!(newest(2, 6).is_newer_than(before), Ok(true));
        assert_eq!(newest(3, 1).is_newer_than(before), Ok(true));
        for (older, why) in [(newest(1, 9), "keys of version 1"), (newest(2, 4), "than version 5")]
        {
            let refused = older.is_newer_than(before).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn the_text_of_a_file_is_read_back() {
        let newest = Newest { root: 2, timestamp: 10 };
        assert_eq!(newest.to_string().parse(), Ok(newest));
        for text in ["", "2", "2 x", "-1 5", "99999999999999999999 1"] {
            assert_eq!(text.parse::<Newest>(), Err(Malformed), "{text}");
        }
    }
}
