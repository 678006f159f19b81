//! Volumes for pods: whole disks beside the node's own, each with a file system, and folders of
//! DATA.

mod backing;
mod disk;
mod state;

pub use backing::VolumeBacking;
pub use disk::{DiskId, DiskText};
pub use state::{VolumePhase, VolumeState};

use std::fmt;

use crate::Refusal;

/// The maximum number of volumes.
pub const MAX_VOLUMES: usize = 8;
/// The maximum bytes of a name. A label of ext4 has as many.
const MAX_NAME: usize = 16;

/// A volume that the node shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    name: VolumeName,
    backing: VolumeBacking,
}

/// The name of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeName(String);

impl Volume {
    /// The volume of this name.
    pub fn new(name: VolumeName, backing: VolumeBacking) -> Self {
        Self { name, backing }
    }

    /// Reads the words after the name: `serial=TEXT`, `wwid=TEXT`, or `folder`.
    pub(super) fn parse_words(name: VolumeName, words: &str) -> Result<Self, Refusal> {
        Ok(Self::new(name, VolumeBacking::parse_word(words)?))
    }

    /// Its name.
    pub fn name(&self) -> &VolumeName {
        &self.name
    }

    /// The disk or the folder that holds its files.
    pub fn backing(&self) -> &VolumeBacking {
        &self.backing
    }
}

impl VolumeName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not 1 to 16 lower-case letters, digits and dashes, the first and the last of them a
    /// letter or a digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let ends = [text.bytes().next(), text.bytes().last()];
        let is_name = text.len() <= MAX_NAME
            && ends.into_iter().all(|end| end.is_some_and(is_inside))
            && text.bytes().all(|byte| is_inside(byte) || byte == b'-');
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let reason = format!(
                    "`{start}` is not the name of a volume: at most {MAX_NAME} lower-case letters, \
                     digits and `-`, which is neither first nor last"
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

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_folder_and_a_label() {
        for name in ["a", "db-1", "0123456789abcdef"] {
            assert_eq!(VolumeName::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "-a", "a-", "A", "a.b", "..", "a/b", "a b", "0123456789abcdefg", "\u{e4}"]
        {
            assert!(VolumeName::parse(name).is_err(), "{name}");
        }
    }
}
