//! DATA of commit `3366aed` is understood by this release, and what this release writes there by
//! that one: a node runs on the same DATA before an update, after it, and back in its old slot.
//!
//! That release has four files of `init` there. `slots-reached` and `node-name` are younger, and it
//! ignores them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use osbuild_folder::Folder;

use super::{containerd_reset, machine_id, name_file};
use crate::host::clock;

const HOST_NAME: &str = "hostname";
const MACHINE_ID: &str = "machine-id";
const COUNT: &str = "containerd-failures";
const CLOCK: &str = "clock";

/// The readers of `3366aed`, as they were written.
mod old {
    use super::*;

    pub fn host_name(data: &Path) -> Option<String> {
        let text = fs::read_to_string(data.join(HOST_NAME)).ok()?;
        Some(text.trim().to_ascii_lowercase())
    }

    pub fn failures(data: &Path) -> u8 {
        let text = fs::read_to_string(data.join(COUNT)).ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    pub fn seen(data: &Path) -> Option<SystemTime> {
        fs::metadata(data.join(CLOCK)).and_then(|file| file.modified()).ok()
    }
}

fn data() -> (tempfile::TempDir, PathBuf, Folder) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().canonicalize().unwrap();
    let folder = Folder::open(&path, "aside").unwrap();
    (place, path, folder)
}

#[test]
fn data_of_3366aed_is_read() {
    let (_place, path, folder) = data();
    let seen = UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    for (name, text) in [
        (HOST_NAME, "node-1\n"),
        (MACHINE_ID, "0123456789ab4def8123456789abcdef\n"),
        (COUNT, "3\n"),
        (CLOCK, ""),
    ] {
        fs::write(path.join(name), text).unwrap();
    }
    fs::File::options().write(true).open(path.join(CLOCK)).unwrap().set_modified(seen).unwrap();
    assert_eq!(name_file::kept_in(&folder, HOST_NAME).as_deref(), Some("node-1"));
    let id = machine_id::kept_in(&folder);
    assert_eq!(id.as_deref(), Some("0123456789ab4def8123456789abcdef\n"));
    assert_eq!(containerd_reset::failures(&folder), 3);
    assert_eq!(clock::seen_on(&folder), Some(seen));
}

#[test]
fn data_of_this_release_is_read_by_3366aed() {
    let (_place, path, folder) = data();
    name_file::keep_in(&folder, HOST_NAME, "node-1").unwrap();
    containerd_reset::count_on(&folder).unwrap();
    containerd_reset::count_on(&folder).unwrap();
    folder.open_or_create(CLOCK, 0o644).unwrap();
    assert_eq!(old::host_name(&path).as_deref(), Some("node-1"));
    assert_eq!(old::failures(&path), 2);
    assert!(old::seen(&path).is_some());
    for name in [HOST_NAME, COUNT, CLOCK] {
        // It follows links, and reads whole files.
        assert!(fs::symlink_metadata(path.join(name)).unwrap().is_file(), "{name}");
    }
}
