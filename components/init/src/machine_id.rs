//! The identity of this node among all nodes, made at its first boot (machine-id(5)).

use std::fs;
use std::path::{Path, PathBuf};

use osbuild_abi::paths::DATA;
use osbuild_failure::{Explain, Outcome};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::node::Node;
use crate::whole_file;

/// Makes the file on DATA unless it is there and whole.
pub fn make(_: &mut Node) -> Outcome {
    let path = path();
    if fs::read_to_string(&path).is_ok_and(|text| is_whole(&text)) {
        return Ok(());
    }
    let mut bytes = [0u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).explain("ask for random bytes")?;
    whole_file::write(&path, &text(bytes), 0o444)
}

/// The first eight digits, for a name that a person can read.
pub fn short() -> Option<String> {
    let text = fs::read_to_string(path()).ok().filter(|text| is_whole(text))?;
    Some(text[..8].to_owned())
}

fn path() -> PathBuf {
    Path::new(DATA).join("machine-id")
}

/// The file of these bytes, which become a version 4 UUID.
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
    fn what_is_written_is_whole_and_a_random_uuid() {
        let made = text([0xff; 16]);
        assert!(is_whole(&made));
        assert_eq!(made, "ffffffffffff4fffbfffffffffffffff\n");
    }

    #[test]
    fn a_torn_file_is_made_anew() {
        for torn in ["", "\n", "abc\n", "ffffffffffff4fffbfffffffffffffff", "uninitialized\n"] {
            assert!(!is_whole(torn), "{torn:?}");
        }
    }
}
