//! The newest metadata that were seen of a repository, older than which nothing is taken.
//!
//! `tough` begins with the root of the image at each look, and forgets what it has seen once that
//! root's keys are not the repository's any more. So whoever has stolen a key that was replaced
//! since could hide the new one, and whoever has an old release could serve it. What stands here
//! only refuses: it lies on DATA, which anybody with the disk can write to, and nothing is believed
//! because of it.

use std::fmt::{self, Display, Formatter};

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use sha2::{Digest, Sha256};

/// Bytes of the longest file that is read: two numbers and a space have fewer.
const MAX_LENGTH: u64 = 100;
/// The permission bits of a file.
const MODE: u32 = 0o644;

/// The versions of the root and of the timestamp. With a new root, which has other keys, the
/// timestamp may begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Newest {
    root: u64,
    timestamp: u64,
}

impl Newest {
    /// These versions.
    pub fn new(root: u64, timestamp: u64) -> Newest {
        Newest { root, timestamp }
    }

    /// Refuses what is older than what the folder `seen` has of the repository with this first
    /// root, and otherwise has it there from now on.
    pub fn keep(self, seen: &Folder, first_root: &[u8]) -> Outcome {
        let name = name(first_root);
        let before = seen.read_text(&name, MAX_LENGTH).ok().flatten().and_then(|text| parse(&text));
        match before {
            Some(before) if self.root < before.root => Err(Failure::new(format!(
                "the repository has keys of version {}, which those of version {} have replaced",
                self.root, before.root
            ))),
            Some(before) if self < before => Err(Failure::new(format!(
                "the repository's metadata are of version {}, older than {}, which was seen",
                self.timestamp, before.timestamp
            ))),
            Some(before) if self == before => Ok(()),
            _ => seen
                .replace(&name, self.to_string().as_bytes(), MODE)
                .explain(format_args!("write {name}")),
        }
    }
}

impl Display for Newest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.root, self.timestamp)
    }
}

/// What a repository's file holds; nothing if it is damaged, as no node may be without updates for
/// that.
fn parse(text: &str) -> Option<Newest> {
    let (root, timestamp) = text.split_once(' ')?;
    Some(Newest { root: root.parse().ok()?, timestamp: timestamp.parse().ok()? })
}

/// An image with another first root follows another repository, or the same one from newer keys on.
fn name(first_root: &[u8]) -> String {
    let digits: String =
        Sha256::digest(first_root)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("newest-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkfifoat};
    use std::fs;
    use tempfile::TempDir;

    fn open(place: &TempDir) -> Folder {
        Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap()
    }

    #[test]
    fn a_fifo_in_its_place_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        mkfifoat(CWD, place.path().join(name(b"first")), 0o600.into()).unwrap();
        assert_eq!(Newest::new(1, 1).keep(&open(&place), b"first"), Ok(()));
        assert!(Newest::new(1, 0).keep(&open(&place), b"first").is_err());
    }

    #[test]
    fn nothing_older_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let seen = open(&place);
        let keep = |root, timestamp| {
            Newest::new(root, timestamp)
                .keep(&seen, b"first")
                .map_err(|failure| failure.to_string())
        };
        for (root, timestamp) in [(1, 5), (1, 5), (1, 6), (2, 1), (2, 10)] {
            assert_eq!(keep(root, timestamp), Ok(()));
        }
        assert!(keep(1, 11).unwrap_err().contains("keys of version 1"));
        assert!(keep(2, 9).unwrap_err().contains("older than 10"));
        assert_eq!(keep(2, 10), Ok(()));
        assert_eq!(Newest::new(1, 1).keep(&seen, b"another repository"), Ok(()));
    }

    #[test]
    fn a_damaged_file_is_written_anew() {
        let place = tempfile::tempdir().unwrap();
        let seen = open(&place);
        for text in ["", "2", "2 x", "-1 5", "99999999999999999999 1"] {
            fs::write(place.path().join(name(b"first")), text).unwrap();
            assert_eq!(Newest::new(1, 1).keep(&seen, b"first"), Ok(()));
            assert!(Newest::new(1, 0).keep(&seen, b"first").is_err());
        }
    }
}
