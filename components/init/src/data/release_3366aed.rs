//! This release reads the four files that `init` of commit `3366aed` has on DATA, and that release
//! reads those of this one: a node has the same DATA before an update, after it, and back in its
//! old slot. That release ignores younger files. The rest of DATA belongs to containerd, the
//! kubelet and pods: `ci` has a machine that runs both releases on one disk.

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

/// The readers of `3366aed`, without its check of the letters of a host name.
mod old {
    use super::*;

    pub fn host_name(data: &Path) -> Option<String> {
        let text = fs::read_to_string(data.join(HOST_NAME)).ok()?;
        Some(text.trim().to_ascii_lowercase())
    }

    pub fn machine_id(data: &Path) -> Option<String> {
        let text = fs::read_to_string(data.join(MACHINE_ID)).ok()?;
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digits = text.strip_suffix('\n')?;
        (digits.len() == 32 && digits.bytes().all(digit)).then_some(text)
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
fn the_files_of_init_of_3366aed_are_read() {
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
fn the_files_of_init_are_read_by_3366aed() {
    let (_place, path, folder) = data();
    name_file::keep_in(&folder, HOST_NAME, "node-1").unwrap();
    containerd_reset::count_on(&folder).unwrap();
    containerd_reset::count_on(&folder).unwrap();
    machine_id::make_in(&folder).unwrap();
    let before = SystemTime::now() - Duration::from_secs(1);
    clock::keep_on(&folder).unwrap();
    assert_eq!(old::host_name(&path).as_deref(), Some("node-1"));
    assert_eq!(old::failures(&path), 2);
    assert_eq!(old::machine_id(&path), machine_id::kept_in(&folder));
    assert!(old::machine_id(&path).is_some());
    assert!(old::seen(&path).is_some_and(|seen| seen > before));
    for name in [HOST_NAME, MACHINE_ID, COUNT, CLOCK] {
        // It follows links, and reads whole files.
        assert!(fs::symlink_metadata(path.join(name)).unwrap().is_file(), "{name}");
    }
}
