//! What slotboot tells `init`, as the text of a UEFI variable: `DISK-GUID SLOT WHY`.

use alloc::string::{String, ToString};
use core::fmt;

use osbuild_abi::disk::{SLOT_A, SLOT_B};
use uuid::Uuid;

/// The most bytes of the text.
const MOST: usize = 512;

/// What was started, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booted {
    /// The disk.
    pub disk: Uuid,
    /// The name of the slot.
    pub slot: &'static str,
    /// Why it was this one, in printable ASCII.
    pub why: String,
}

impl Booted {
    /// Reads the text, which is nothing to be trusted: others can write the variable too.
    pub fn parse(text: &[u8]) -> Option<Booted> {
        let text = core::str::from_utf8(text).ok().filter(|text| text.len() <= MOST)?;
        let mut words = text.splitn(3, ' ');
        let disk = Uuid::try_parse(words.next()?).ok()?;
        let name = words.next()?;
        let slot = [SLOT_A, SLOT_B].into_iter().find(|slot| *slot == name)?;
        let why = words
            .next()
            .filter(|why| !why.is_empty() && why.bytes().all(|byte| matches!(byte, b' '..=b'~')))?;
        Some(Booted { disk, slot, why: why.to_string() })
    }
}

impl fmt::Display for Booted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.disk, self.slot, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::slot::VENDOR;
    use osbuild_formats::gpt::guid_from_name;
    use proptest::prelude::*;

    #[test]
    fn the_vendor_of_the_variable_is_made_from_its_name() {
        assert_eq!(guid_from_name("slotboot").to_string(), VENDOR);
    }

    #[test]
    fn what_is_no_word_of_slotboot_is_refused() {
        let disk = guid_from_name("disk");
        for text in [
            "",
            " ",
            "x SLOT-A why",
            &disk.to_string(),
            &alloc::format!("{disk} SLOT-A"),
            &alloc::format!("{disk} SLOT-A "),
            &alloc::format!("{disk} SLOT-C why"),
            &alloc::format!("{disk} SLOT-A a\nb"),
            &alloc::format!("{disk} SLOT-A {}", "y".repeat(MOST)),
        ] {
            assert_eq!(Booted::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(disk: u128, second: bool, why in "[ -~]{1,300}") {
            let booted = Booted { disk: Uuid::from_u128(disk), slot: if second { SLOT_B } else { SLOT_A }, why };
            prop_assert_eq!(Booted::parse(booted.to_string().as_bytes()), Some(booted));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: alloc::vec::Vec<u8>) {
            let _ = Booted::parse(&bytes);
        }
    }
}
