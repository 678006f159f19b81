//! Firmware variables as efivarfs shows them: four bytes of attributes, then the value (UEFI 2.10,
//! 8.2).

/// The attributes of a volatile variable: accessible at boot and at run time, and not persistent.
const VOLATILE: u32 = 6;

/// The value of a volatile variable. A persistent one counts as missing: it may have been written
/// in another boot.
pub fn volatile(bytes: &[u8]) -> Option<&[u8]> {
    let (attributes, value) = bytes.split_first_chunk()?;
    (u32::from_le_bytes(*attributes) == VOLATILE).then_some(value)
}

/// The value of a variable; empty if it has no attributes.
pub fn value(bytes: &[u8]) -> &[u8] {
    bytes.split_first_chunk::<4>().map_or(&[], |(_, value)| value)
}

/// Whether a variable is one byte of value 1.
pub fn is_one(bytes: &[u8]) -> bool {
    value(bytes) == [1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persistent_variable_counts_as_missing() {
        assert_eq!(volatile(b"\x06\0\0\0SLOT"), Some(&b"SLOT"[..]));
        assert_eq!(volatile(b"\x07\0\0\0SLOT"), None);
        assert_eq!(volatile(b"\x06\0\0"), None);
    }

    #[test]
    fn only_a_single_byte_of_one_counts() {
        assert!(is_one(&[6, 0, 0, 0, 1]));
        for bytes in [&[][..], &[1], &[6, 0, 0, 0], &[6, 0, 0, 0, 0], &[6, 0, 0, 0, 1, 0]] {
            assert!(!is_one(bytes), "{bytes:?}");
        }
    }
}
