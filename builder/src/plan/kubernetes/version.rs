//! Version numbers of releases.

use std::fmt;
use std::str::FromStr;

/// A released version, `MAJOR.MINOR.PATCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major and minor.
    pub minor: Minor,
    /// Patch.
    pub patch: u32,
}

/// A line of releases, `MAJOR.MINOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
}

impl Minor {
    /// The minor `count` behind this one, with the same major.
    pub fn behind(self, count: u32) -> Self {
        Minor { minor: self.minor.saturating_sub(count), ..self }
    }
}

impl FromStr for Version {
    type Err = ();

    /// Reads `1.35.8`: three numbers without leading zeros or signs, and nothing else.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (minor, patch) = text.rsplit_once('.').ok_or(())?;
        Ok(Version { minor: minor.parse()?, patch: number(patch)? })
    }
}

impl FromStr for Minor {
    type Err = ();

    /// Reads `1.35`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once('.').ok_or(())?;
        Ok(Minor { major: number(major)?, minor: number(minor)? })
    }
}

fn number(text: &str) -> Result<u32, ()> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().map_err(|_| ()) } else { Err(()) }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.minor, self.patch)
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_number() {
        assert!("1.9.9".parse::<Version>().unwrap() < "1.10.0".parse::<Version>().unwrap());
    }

    #[test]
    fn only_three_plain_numbers_are_a_version() {
        for wrong in ["1.35", "v1.35.8", "1.35.08", "1.35.8-rc.1", "1..8", "1.35.8.1", "+1.2.3", ""]
        {
            assert_eq!(wrong.parse::<Version>(), Err(()), "{wrong}");
        }
    }
}
