//! The security epoch of a UKI or of slotboot: a section with a number in decimal digits. A release
//! that closes a hole counts it up, so that a machine that has run it can refuse what is older,
//! however well that is signed.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use osbuild_abi::slot::EPOCH_SECTION;

use crate::pe::{self, Image};

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

/// The section's data, or the value of the firmware variable that holds the least epoch.
pub fn text(epoch: u32) -> String {
    epoch.to_string()
}

/// Reads what [`text`] wrote, and nothing else: no sign, no white space, no leading zero.
///
/// # Errors
/// It is anything else.
pub fn parse(text: &[u8]) -> Result<u32, NotANumber> {
    let digits = core::str::from_utf8(text).map_err(|_| NotANumber)?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().map_err(|_| NotANumber) } else { Err(NotANumber) }
}

/// Gives `program`, which nobody has signed yet, with the section.
///
/// # Errors
/// It is no PE image, has such a section, or has no room for one.
pub fn stamp(program: &[u8], epoch: u32) -> Result<Vec<u8>, pe::Error> {
    let text = text(epoch);
    let section = pe::NewSection {
        name: EPOCH_SECTION,
        data: text.as_bytes(),
        virtual_size: 0,
        characteristics: pe::READ_ONLY_DATA,
    };
    pe::append(program, &[section])
}

/// The epoch of an image. One without the section is older than all that have it: 0.
///
/// # Errors
/// The section holds no number.
pub fn of(image: &Image) -> Result<u32, NotANumber> {
    image.section(EPOCH_SECTION).map_or(Ok(0), |section| parse(section.data()))
}

impl fmt::Display for NotANumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its security epoch is no number")
    }
}

impl core::error::Error for NotANumber {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_plain_digits_are_a_number() {
        for wrong in ["", " ", "+1", "-1", "01", "00", "1 ", "1\n", "1\0", "4294967296", "٣", "0x1"]
        {
            assert_eq!(parse(wrong.as_bytes()), Err(NotANumber), "{wrong:?}");
        }
        assert_eq!(parse(b"4294967295"), Ok(u32::MAX));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(epoch: u32) {
            prop_assert_eq!(parse(text(epoch).as_bytes()), Ok(epoch));
        }

        #[test]
        fn no_other_bytes_are_a_number(bytes: Vec<u8>) {
            if let Ok(epoch) = parse(&bytes) {
                prop_assert_eq!(text(epoch).into_bytes(), bytes);
            }
        }
    }
}
