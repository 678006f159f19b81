//! The newest metadata versions seen of a repository; older metadata are refused.
//!
//! `tough` starts each check with the image's root, and forgets what it has seen once the
//! repository has replaced that root's keys. Without this file an attacker with a stolen key that
//! was replaced since could hide the rotation, and an attacker with an old release could serve it.
//! The file can only cause refusals: it is on DATA, which anybody with the disk can write, so
//! nothing is trusted because of it.

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use osbuild_release::Newest;
use sha2::{Digest, Sha256};

/// The maximum size of the file in bytes; two numbers and a space need less.
const MAX_LENGTH: u64 = 100;
/// The permission bits of the file.
const MODE: u32 = 0o644;

/// Refuses versions older than those recorded in the folder `seen` for the repository with this
/// first root. Records newer ones. A damaged file counts as missing, so that it does not stop
/// updates.
pub fn advance(newest: Newest, seen: &Folder, first_root: &[u8]) -> Outcome {
    let name = name(first_root);
    let text = seen.read_text(&name, MAX_LENGTH).ok().flatten();
    let is_newer = match text.and_then(|text| text.parse().ok()) {
        Some(before) => {
            newest.is_newer_than(before).map_err(|older| Failure::new(older.to_string()))?
        }
        None => true,
    };
    if !is_newer {
        return Ok(());
    }
    seen.replace(&name, newest.to_string().as_bytes(), MODE).explain(format_args!("write {name}"))
}

/// The name of the file. An image with another first root follows another repository, or the same
/// repository since a key rotation.
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

    fn newest(root: u64, timestamp: u64) -> Newest {
        Newest { root, timestamp }
    }

    fn open(place: &TempDir) -> Folder {
        Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap()
    }

    #[test]
    fn a_fifo_in_its_place_does_not_block() {
        let place = tempfile::tempdir().unwrap();
        mkfifoat(CWD, place.path().join(name(b"first")), 0o600.into()).unwrap();
        assert_eq!(advance(newest(1, 1), &open(&place), b"first"), Ok(()));
        assert!(advance(newest(1, 0), &open(&place), b"first").is_err());
    }

    #[test]
    fn older_versions_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let seen = open(&place);
        let advance_to = |root, timestamp| {
            advance(newest(root, timestamp), &seen, b"first").map_err(|failure| failure.to_string())
        };
        for (root, timestamp) in [(1, 5), (1, 5), (1, 6), (2, 1), (2, 10)] {
            assert_eq!(advance_to(root, timestamp), Ok(()));
        }
        assert!(advance_to(1, 11).unwrap_err().contains("keys of version 1"));
        assert!(advance_to(2, 9).unwrap_err().contains("older than version 10"));
        assert_eq!(advance_to(2, 10), Ok(()));
        assert_eq!(advance(newest(1, 1), &seen, b"another repository"), Ok(()));
    }

    #[test]
    fn a_damaged_file_is_rewritten() {
        let place = tempfile::tempdir().unwrap();
        let seen = open(&place);
        for text in ["", "2", "2 x", "-1 5", "99999999999999999999 1"] {
            fs::write(place.path().join(name(b"first")), text).unwrap();
            assert_eq!(advance(newest(1, 1), &seen, b"first"), Ok(()));
            assert!(advance(newest(1, 0), &seen, b"first").is_err());
        }
    }
}
