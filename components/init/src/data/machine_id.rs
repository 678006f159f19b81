//! The machine id, made at the first boot (machine-id(5)).

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::data;

/// Its file on DATA.
const FILE: &str = "machine-id";
/// The maximum length of the file in bytes; a whole one is shorter.
const MAX_LENGTH: u64 = 100;

/// Makes the file on DATA unless a whole one exists.
pub fn make() -> Outcome {
    make_in(&data::folder::open()?)
}

/// The same below another folder than DATA.
pub(super) fn make_in(folder: &Folder) -> Outcome {
    if kept_in(folder).is_some() {
        return Ok(());
    }
    let mut bytes = [0u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).explain("ask for random bytes")?;
    folder
        .replace(FILE, text(bytes).as_bytes(), 0o444)
        .explain(format_args!("write {FILE} on DATA"))
}

/// The first eight digits, for a readable name.
pub fn short() -> Option<String> {
    Some(kept()?[..8].to_owned())
}

/// The machine id on DATA, if it is whole.
fn kept() -> Option<String> {
    kept_in(&data::folder::open().ok()?)
}

/// The same below another folder than DATA.
pub(super) fn kept_in(folder: &Folder) -> Option<String> {
    let text = folder.read_text(FILE, MAX_LENGTH).ok()??;
    is_whole(&text).then_some(text)
}

/// The content of the file for these bytes, as a version 4 UUID.
fn text(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    format!("{:032x}\n", u128::from_be_bytes(bytes))
}

fn is_whole(text: &str) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_suffix('\n').is_some_and(|digits| digits.len() == 32 && digits.bytes().all(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_machine_id_is_whole_and_a_random_uuid() {
        let made = text([0xff; 16]);
        assert!(is_whole(&made));
        assert_eq!(made, "ffffffffffff4fffbfffffffffffffff\n");
    }

    #[test]
    fn a_torn_file_is_made_again() {
        for torn in ["", "\n", "abc\n", "ffffffffffff4fffbfffffffffffffff", "uninitialized\n"] {
            assert!(!is_whole(torn), "{torn:?}");
        }
    }
}
