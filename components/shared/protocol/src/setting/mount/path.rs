//! The paths of mounts.

use std::fmt;

use osbuild_abi::declared::overlap;

use crate::Refusal;

/// The maximum bytes of a path.
const MAX_LENGTH: usize = 128;

/// An absolute path that is no other way to write another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountPath(String);

impl MountPath {
    /// Reads a path.
    ///
    /// # Errors
    /// It is relative or the root, is longer than 128 bytes, has an empty, `.` or `..` component,
    /// or another character than printable ASCII without space and backslash.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_known = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_known);
        let is_path = text.strip_prefix('/').is_some_and(|parts| parts.split('/').all(is_part));
        match is_path && text.len() <= MAX_LENGTH {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(MAX_LENGTH).collect();
                let reason = format!("`{start}` is not an absolute path for a mount");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are the same, or one is below the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        overlap(&self.0, &other.0)
    }
}

impl fmt::Display for MountPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_absolute_and_leads_nowhere_else() {
        for text in ["/tmp", "/run/mnt/scratch", "/srv/a.b-c_d@1"] {
            assert_eq!(MountPath::parse(text).unwrap().as_str(), text);
        }
        let long = format!("/{}", "a".repeat(MAX_LENGTH));
        for text in [
            "",
            "/",
            "tmp",
            "/run/",
            "/run//mnt",
            "/run/./mnt",
            "/run/../etc",
            "/run/mnt/..",
            "/run/a b",
            "/run/a\\040b",
            "/run/\u{e4}",
            "/run/a\0",
            &long,
        ] {
            assert!(MountPath::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_path_overlaps_with_those_above_and_below() {
        let path = |text| MountPath::parse(text).unwrap();
        for (one, other, expected) in [
            ("/run/mnt/a", "/run/mnt/a", true),
            ("/run/mnt/a", "/run/mnt/a/b", true),
            ("/run/mnt", "/run/mnt/a", true),
            ("/run/mnt/a", "/run/mnt/ab", false),
        ] {
            assert_eq!(path(one).overlaps(&path(other)), expected, "{one} {other}");
        }
    }
}
