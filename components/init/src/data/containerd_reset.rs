//! Deletes containerd's state when the node has failed to boot several times because of it.
//!
//! Both slots share DATA. State that containerd cannot read there, or an image that it does not
//! release, would otherwise end every boot of both slots.

use osbuild_abi::slot::UPDATE_TRIES;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;

use crate::data;

/// The state, by the names of the table of writable paths: containerd's folder, and that of CNI
/// plugins. A plugin releases an address only when containerd ends a sandbox that it knows.
const FOLDERS: [&str; 2] = ["containerd", "cni"];

/// How many boots may fail. The limit is one above an update's tries: a bad release falls back
/// before anything is deleted.
const MAX_FAILURES: u8 = UPDATE_TRIES + 1;

/// The file on DATA with the number of failures, in decimal digits.
const COUNT: &str = "containerd-failures";
/// The maximum length of that file in bytes.
const MAX_LENGTH: u64 = 16;

/// Counts a boot that failed because of containerd or its state. Returns a line for the console.
pub fn count() -> Outcome<String> {
    let failures = count_on(&data::folder::open()?)?;
    Ok(format!(
        "{failures} of {MAX_FAILURES} failed boots after which containerd's state is deleted"
    ))
}

/// Deletes containerd's state if too many boots have failed. Returns a line for the console if it
/// did.
pub fn apply() -> Outcome<Option<String>> {
    let applied = apply_on(&data::folder::open()?)?;
    Ok(applied.then(|| {
        format!(
            "deleted containerd's state after {MAX_FAILURES} failed boots; images are fetched again"
        )
    }))
}

/// Resets the count, as the node is ready.
pub fn reset() -> Outcome {
    reset_on(&data::folder::open()?)
}

/// The failures since the node was ready last; 0 if the file has no number.
pub(super) fn failures(data: &Folder) -> u8 {
    data.read_text(COUNT, MAX_LENGTH)
        .ok()
        .flatten()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

pub(super) fn count_on(data: &Folder) -> Outcome<u8> {
    let failures = failures(data).saturating_add(1);
    data.replace(COUNT, format!("{failures}\n").as_bytes(), 0o644)
        .explain(format_args!("write {COUNT} on DATA"))?;
    Ok(failures)
}

/// Only moves the folders, which takes no time: [`super::tidy`] removes them while the boot goes
/// on. A power cut before the end leaves the count, so the next boot continues.
fn apply_on(data: &Folder) -> Outcome<bool> {
    if failures(data) < MAX_FAILURES {
        return Ok(false);
    }
    for folder in FOLDERS {
        data.discard(folder).explain(format_args!("remove {folder} from DATA"))?;
    }
    reset_on(data).map(|()| true)
}

fn reset_on(data: &Folder) -> Outcome {
    data.remove(COUNT).explain(format_args!("remove {COUNT} from DATA"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::paths::CONTAINERD_BLOBS;
    use osbuild_abi::writable::{Backing, WRITABLE};
    use std::fs;
    use std::path::Path;

    /// DATA with a file in each folder, and whether these are there.
    struct Data(tempfile::TempDir, Folder);

    impl Data {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let folder = Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap();
            let data = Data(place, folder);
            for folder in FOLDERS.map(|name| data.path().join(name)) {
                fs::create_dir_all(folder.join("deeper")).unwrap();
                fs::write(folder.join("deeper/file"), "kept").unwrap();
            }
            data
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn is_whole(&self) -> bool {
            FOLDERS.iter().all(|name| self.path().join(name).join("deeper/file").exists())
        }
    }

    fn fail(data: &Data, times: u8) {
        for _ in 0..times {
            count_on(&data.1).unwrap();
        }
    }

    #[test]
    fn the_folders_are_rows_of_the_table_of_writable_paths() {
        let path = |name| {
            WRITABLE
                .iter()
                .find(|row| matches!(row.backing, Backing::Data(from) if from == name))
                .unwrap()
                .path
        };
        assert!(Path::new(CONTAINERD_BLOBS).starts_with(path(FOLDERS[0])));
        assert_eq!(path(FOLDERS[1]), "/var/lib/cni");
        assert!(
            WRITABLE
                .iter()
                .all(|row| !matches!(row.backing, Backing::Data(COUNT) | Backing::DataFile(COUNT)))
        );
    }

    #[test]
    fn a_release_that_spends_its_tries_costs_nothing() {
        let data = Data::new();
        fail(&data, UPDATE_TRIES);
        assert!(!apply_on(&data.1).unwrap() && data.is_whole());
    }

    #[test]
    fn one_failure_more_deletes_the_state_once() {
        let data = Data::new();
        fail(&data, MAX_FAILURES);
        assert!(apply_on(&data.1).unwrap());
        assert!(FOLDERS.iter().all(|name| !data.path().join(name).exists()));
        // A node without the folders has nothing to delete.
        fail(&data, MAX_FAILURES);
        assert!(apply_on(&data.1).unwrap());
        assert!(!apply_on(&data.1).unwrap());
    }

    #[test]
    fn a_node_that_was_ready_starts_its_count_again() {
        let data = Data::new();
        reset_on(&data.1).unwrap();
        fail(&data, UPDATE_TRIES);
        reset_on(&data.1).unwrap();
        fail(&data, UPDATE_TRIES);
        assert!(!apply_on(&data.1).unwrap() && data.is_whole());
    }

    #[test]
    fn the_state_is_out_of_the_way_at_once_and_removed_later() {
        let data = Data::new();
        fail(&data, MAX_FAILURES);
        let folder = data.path().join(FOLDERS[1]);
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "no folder").unwrap();
        assert!(apply_on(&data.1).unwrap());
        assert!(FOLDERS.iter().all(|name| !data.path().join(name).exists()));
        assert!(data.1.is_untidy());
        data.1.tidy().unwrap();
        assert!(!data.1.is_untidy());
    }

    #[test]
    fn a_malformed_count_is_zero() {
        let data = Data::new();
        for (text, expected) in
            [("3\n", 4), ("", 1), ("many", 1), ("-1", 1), ("255", 255), ("256", 1)]
        {
            fs::write(data.path().join(COUNT), text).unwrap();
            assert_eq!(count_on(&data.1).unwrap(), expected, "{text}");
        }
    }
}
