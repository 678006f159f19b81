//! The newest metadata that were seen of a repository, older than which nothing is taken.
//!
//! `tough` begins with the root of the image at each look, and forgets what it has seen once that root's keys are not the repository's any more.
//! So whoever has stolen a key that was replaced since could hide the new one, and whoever has an old release could serve it. What stands here
//! only refuses: it lies on DATA, which anybody with the disk can write to, and nothing is believed because of it.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Failure, Outcome};
use sha2::{Digest, Sha256};

/// The versions of the root and of the timestamp. With a new root, which has other keys, the timestamp may begin anew.
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

    /// Refuses what is older than what the folder `seen` has of the repository with this first root, and otherwise has it there from now on.
    pub fn keep(self, seen: &Path, first_root: &[u8]) -> Outcome {
        let path = path(seen, first_root);
        let before = fs::read_to_string(&path).ok().and_then(|text| parse(&text));
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
            _ => self.write(&path).explain(format_args!("write {}", path.display())),
        }
    }

    /// Whole or not at all.
    fn write(self, path: &Path) -> std::io::Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, self.to_string())?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(new, path)
    }
}

impl Display for Newest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.root, self.timestamp)
    }
}

/// What a repository's file holds; nothing if it is damaged, as no node may be without updates for that.
fn parse(text: &str) -> Option<Newest> {
    let (root, timestamp) = text.split_once(' ')?;
    Some(Newest { root: root.parse().ok()?, timestamp: timestamp.parse().ok()? })
}

/// An image with another first root follows another repository, or the same one from newer keys on.
fn path(seen: &Path, first_root: &[u8]) -> PathBuf {
    let name: String = Sha256::digest(first_root)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    seen.join(format!("newest-{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_older_is_kept() {
        let seen = tempfile::tempdir().unwrap();
        let keep =
            |root, timestamp| Newest::new(root, timestamp).keep(seen.path(), b"first").map_err(|failure| failure.to_string());
        for (root, timestamp) in [(1, 5), (1, 5), (1, 6), (2, 1), (2, 10)] {
            assert_eq!(keep(root, timestamp), Ok(()));
        }
        assert!(keep(1, 11).unwrap_err().contains("keys of version 1"));
        assert!(keep(2, 9).unwrap_err().contains("older than 10"));
        assert_eq!(keep(2, 10), Ok(()));
        assert_eq!(Newest::new(1, 1).keep(seen.path(), b"another repository"), Ok(()));
    }

    #[test]
    fn a_damaged_file_is_written_anew() {
        let seen = tempfile::tempdir().unwrap();
        for text in ["", "2", "2 x", "-1 5", "99999999999999999999 1"] {
            fs::write(path(seen.path(), b"first"), text).unwrap();
            assert_eq!(Newest::new(1, 1).keep(seen.path(), b"first"), Ok(()));
            assert!(Newest::new(1, 0).keep(seen.path(), b"first").is_err());
        }
    }
}
