//! Empties DATA on request, so that the node starts as if it had never run.
//!
//! The request is a file on DATA, and the next boot carries it out before anything reads DATA: no
//! program runs then that uses what goes.

use std::ffi::OsStr;

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;

use crate::data;

/// The name of the phase that empties DATA, and of its line on the console.
pub const NAME: &str = "reset";

/// The file on DATA that requests it, and its text: an empty file of that name may be an accident.
const REQUEST: &str = "reset";
const TEXT: &str = "empty DATA\n";

/// The folder that ext4 itself needs, so a reset leaves it.
const OF_EXT4: &str = "lost+found";

/// Requests that the next boot empties DATA.
pub fn request() -> Outcome {
    request_on(&data::folder::open()?)
}

/// Empties DATA if that was requested. Returns a line for the console if it did.
pub fn apply() -> Outcome<Option<&'static str>> {
    let applied = apply_on(&data::folder::open()?)?;
    Ok(applied.then_some("emptied DATA on request"))
}

fn request_on(data: &Folder) -> Outcome {
    let written = data.replace(REQUEST, TEXT.as_bytes(), 0o600);
    written.explain(format_args!("write {REQUEST} on DATA"))
}

/// Only moves the entries, which takes no time: [`super::tidy`] removes them while the boot goes
/// on. A power cut before the end leaves the request, so the next boot continues.
fn apply_on(data: &Folder) -> Outcome<bool> {
    let requested = data.read_text(REQUEST, TEXT.len() as u64);
    let is_requested = requested.is_ok_and(|text| text.as_deref() == Some(TEXT));
    if is_requested {
        let is_kept = |name: &OsStr| [REQUEST, OF_EXT4].iter().any(|kept| name == *kept);
        data.discard_all(is_kept).explain("empty DATA")?;
    }
    data.remove(REQUEST).explain(format_args!("remove {REQUEST} from DATA"))?;
    Ok(is_requested)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn data() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap();
        fs::create_dir_all(place.path().join("kubelet/pki")).unwrap();
        fs::write(place.path().join("kubelet/pki/key"), "secret").unwrap();
        fs::write(place.path().join("machine-id"), "1").unwrap();
        fs::write(place.path().join(OsStr::from_bytes(b"\xff")), "no text").unwrap();
        fs::create_dir(place.path().join("lost+found")).unwrap();
        (place, folder)
    }

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_requested_reset_leaves_nothing_once_it_is_tidied() {
        let (place, data) = data();
        data.move_aside("machine-id").unwrap();
        request_on(&data).unwrap();
        assert!(apply_on(&data).unwrap());
        assert_eq!(names(place.path()), ["aside", "lost+found"]);
        data.tidy().unwrap();
        assert_eq!(names(&place.path().join("aside")), ["discarded"]);
        assert!(names(&place.path().join("aside/discarded")).is_empty());
        assert!(!apply_on(&data).unwrap());
    }

    #[test]
    fn without_a_request_everything_stays() {
        let (place, data) = data();
        let before = names(place.path());
        assert!(!apply_on(&data).unwrap());
        for text in ["", "empty", "empty DATA\n\n"] {
            fs::write(place.path().join(REQUEST), text).unwrap();
            assert!(!apply_on(&data).unwrap(), "{text}");
        }
        assert_eq!(names(place.path()), before);
    }

    #[test]
    fn an_interrupted_reset_goes_on() {
        let (place, data) = data();
        request_on(&data).unwrap();
        data.discard("kubelet").unwrap();
        assert!(apply_on(&data).unwrap());
        assert_eq!(names(place.path()), ["aside", "lost+found"]);
    }
}
