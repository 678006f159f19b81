//! The header at the start of a slot. It is written last, and is erased before the UKI behind it is
//! touched.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use osbuild_abi::slot::{HEADER_SIZE, MAGIC, VERSION_SIZE};

/// Version of this layout. Offsets: magic 0, layout 8, UKI's length 16, UKI's SHA-256 24, version
/// 56, checksum at the end; zeros elsewhere. All numbers are little-endian.
const LAYOUT: u64 = 1;
const SIZE: usize = HEADER_SIZE as usize;
/// Where the CRC-32 of all bytes before it stands.
const CHECKSUM: usize = SIZE - 4;
const VERSION: usize = 56;

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the UKI.
    pub length: u64,
    /// SHA-256 of the UKI.
    pub sha256: [u8; 32],
    /// Version of the node: printable ASCII, at most 64 bytes.
    pub version: String,
}

/// Why a header is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// There is nothing: all bytes are the same.
    Empty,
    /// It does not begin as a slot does.
    Magic,
    /// Its checksum is wrong.
    Checksum,
    /// It is of another layout than this program knows.
    Layout,
    /// Its version is empty, too long or not printable ASCII.
    Version,
}

impl Header {
    /// The bytes of the header, 4096 of them.
    ///
    /// # Errors
    /// The version cannot be written.
    pub fn encode(&self) -> Result<Vec<u8>, HeaderError> {
        if !is_version(self.version.as_bytes()) {
            return Err(HeaderError::Version);
        }
        let mut bytes = vec![0; SIZE];
        let mut put = |offset: usize, field: &[u8]| {
            bytes[offset..offset + field.len()].copy_from_slice(field)
        };
        put(0, MAGIC);
        put(8, &LAYOUT.to_le_bytes());
        put(16, &self.length.to_le_bytes());
        put(24, &self.sha256);
        put(VERSION, self.version.as_bytes());
        let checksum = crc32fast::hash(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }

    /// Reads the header at the start of `bytes`, which may be anything.
    pub fn parse(bytes: &[u8]) -> Result<Header, HeaderError> {
        let bytes: &[u8; SIZE] = bytes.first_chunk().ok_or(HeaderError::Magic)?;
        if !bytes.starts_with(MAGIC) {
            return Err(if bytes.iter().all(|byte| *byte == bytes[0]) {
                HeaderError::Empty
            } else {
                HeaderError::Magic
            });
        }
        if crc32fast::hash(&bytes[..CHECKSUM]).to_le_bytes() != bytes[CHECKSUM..] {
            return Err(HeaderError::Checksum);
        }
        let number =
            |offset: usize| u64::from_le_bytes(core::array::from_fn(|index| bytes[offset + index]));
        if number(8) != LAYOUT {
            return Err(HeaderError::Layout);
        }
        let field = &bytes[VERSION..VERSION + VERSION_SIZE];
        let version = field.split(|byte| *byte == 0).next().unwrap_or_default();
        if !is_version(version) {
            return Err(HeaderError::Version);
        }
        let version = String::from_utf8_lossy(version).into_owned();
        Ok(Header {
            length: number(16),
            sha256: core::array::from_fn(|index| bytes[24 + index]),
            version,
        })
    }
}

fn is_version(text: &[u8]) -> bool {
    (1..=VERSION_SIZE).contains(&text.len()) && text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::Magic => "it does not begin with a header",
            Self::Checksum => "the checksum of its header is wrong",
            Self::Layout => "its header has a layout that is not known here",
            Self::Version => "its version is not printable text",
        })
    }
}

impl core::error::Error for HeaderError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use proptest::prelude::*;

    fn header() -> Header {
        Header { length: 70 << 20, sha256: [7; 32], version: "1.35.8".to_owned() }
    }

    #[test]
    fn the_layout_is_what_disks_out_there_have() {
        let bytes = header().encode().unwrap();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(bytes[..24], *b"OSBSLOT\0\x01\0\0\0\0\0\0\0\0\0\x60\x04\0\0\0\0");
        assert_eq!((&bytes[24..56], &bytes[56..63]), (&[7; 32][..], &b"1.35.8\0"[..]));
        // As zlib computes it.
        assert_eq!(bytes[4092..], 0x6C2A_4D88_u32.to_le_bytes());
    }

    #[test]
    fn an_empty_slot_is_told_from_a_damaged_one() {
        assert_eq!(Header::parse(&[0; 4096]), Err(HeaderError::Empty));
        assert_eq!(Header::parse(&[0xFF; 4096]), Err(HeaderError::Empty));
        assert_eq!(Header::parse(&[0; 4095]), Err(HeaderError::Magic));
        assert_eq!(
            Header::parse(&[b"MZ".as_slice(), &[0; 4094]].concat()),
            Err(HeaderError::Magic)
        );
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let mut bytes = header().encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_version_that_cannot_be_printed_is_refused_on_both_sides() {
        for version in ["", "a b", "a\nb", "ä", &"1".repeat(65)] {
            assert_eq!(
                Header { version: version.to_owned(), ..header() }.encode(),
                Err(HeaderError::Version),
                "{version}"
            );
        }
        let mut bytes = header().encode().unwrap();
        bytes[56] = 0x1B;
        let checksum = crc32fast::hash(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::parse(&bytes), Err(HeaderError::Version));
    }

    proptest! {
        #[test]
        fn write_then_read_is_identity(length: u64, sha256: [u8; 32], version in "[!-~]{1,64}") {
            let header = Header { length, sha256, version };
            prop_assert_eq!(Header::parse(&header.encode().unwrap()), Ok(header));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 4096), begins: bool, sums: bool) {
            if begins {
                bytes[..16].copy_from_slice(b"OSBSLOT\0\x01\0\0\0\0\0\0\0");
            }
            if sums {
                let checksum = crc32fast::hash(&bytes[..4092]);
                bytes[4092..].copy_from_slice(&checksum.to_le_bytes());
            }
            let _ = Header::parse(&bytes);
        }
    }
}
