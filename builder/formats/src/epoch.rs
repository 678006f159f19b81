//! The security epoch of a UKI or of slotboot: a section with a number in decimal digits. A release
//! that closes a security hole increments it, so that a machine that has run that release can
//! refuse older ones, even signed ones.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use osbuild_abi::slot::EPOCH_SECTION;

use crate::pe::{self, Image};

/// The error for bytes that are not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

/// Returns the section's data, which is also the value of the firmware variable with the minimum
/// epoch.
pub fn text(epoch: u32) -> String {
    epoch.to_string()
}

/// Reads the output of [`text`] and nothing else: no sign, no white space, no leading zero.
///
/// # Errors
/// The bytes are anything else.
pub fn parse(text: &[u8]) -> Result<u32, NotANumber> {
    let digits = core::str::from_utf8(text).map_err(|_| NotANumber)?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().map_err(|_| NotANumber) } else { Err(NotANumber) }
}

/// Returns the unsigned `program` with the section added.
///
/// # Errors
/// It is not a PE image, already has the section, or has no room for it.
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

/// Returns the epoch of an image; 0 without the section, because such an image is older than all
/// images with it.
///
/// # Errors
/// The section does not hold a number.
pub fn of(image: &Image) -> Result<u32, NotANumber> {
    image.section(EPOCH_SECTION).map_or(Ok(0), |section| parse(section.data()))
}

impl fmt::Display for NotANumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its security epoch is not a number")
    }
}

impl core::error::Error for NotANumber {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_plain_digits_are_an_epoch() {
        for wrong in ["", " ", "+1", "-1", "01", "00", "1 ", "1\n", "1\0", "4294967296", "٣", "0x1"]
        {
            assert_eq!(parse(wrong.as_bytes()), Err(NotANumber), "{wrong:?}");
        }
        assert_eq!(parse(b"4294967295"), Ok(u32::MAX));
    }

    proptest! {
        #[test]
        fn a_written_epoch_is_read_back(epoch: u32) {
            prop_assert_eq!(parse(text(epoch).as_bytes()), Ok(epoch));
        }

        #[test]
        fn other_bytes_are_not_an_epoch(bytes: Vec<u8>) {
            if let Ok(epoch) = parse(&bytes) {
                prop_assert_eq!(text(epoch).into_bytes(), bytes);
            }
        }
    }
}
