//! The header of a slot. It is erased before the UKI behind it changes, and written last.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem::offset_of;

use osbuild_abi::slot::{HEADER_SIZE, MAGIC, VERSION_SIZE};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the layout of [`RawHeader`].
const LAYOUT: u64 = 1;

/// The header as it is stored.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    layout: U64,
    length: U64,
    sha256: [u8; 32],
    /// The version, padded with zeros.
    version: [u8; VERSION_SIZE],
    reserved: [u8; 3972],
    /// CRC-32 of all bytes before it.
    checksum: U32,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_SIZE as usize);

impl RawHeader {
    fn compute_checksum(&self) -> u32 {
        crc32fast::hash(&self.as_bytes()[..offset_of!(RawHeader, checksum)])
    }
}

/// The contents of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the UKI.
    pub length: u64,
    /// SHA-256 of the UKI.
    pub sha256: [u8; 32],
    /// Version of the node: printable ASCII, at most 64 bytes.
    pub version: String,
}

/// Why a header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The slot is empty: all bytes are the same.
    Empty,
    /// The magic number is missing.
    Magic,
    /// The checksum is wrong.
    Checksum,
    /// The layout is newer than this program.
    Layout,
    /// The version is empty, too long or not printable ASCII.
    Version,
}

impl Header {
    /// Returns the 4096 bytes of the header.
    ///
    /// # Errors
    /// [`HeaderError::Version`].
    pub fn encode(&self) -> Result<Vec<u8>, HeaderError> {
        if !is_version(self.version.as_bytes()) {
            return Err(HeaderError::Version);
        }
        let mut version = [0; VERSION_SIZE];
        version[..self.version.len()].copy_from_slice(self.version.as_bytes());
        let mut raw = RawHeader {
            magic: *MAGIC,
            layout: LAYOUT.into(),
            length: self.length.into(),
            sha256: self.sha256,
            version,
            reserved: [0; _],
            checksum: U32::ZERO,
        };
        raw.checksum = raw.compute_checksum().into();
        Ok(raw.as_bytes().to_vec())
    }

    /// Reads the header at the start of `bytes`, which are untrusted.
    pub fn parse(bytes: &[u8]) -> Result<Header, HeaderError> {
        let (raw, _) = RawHeader::ref_from_prefix(bytes).map_err(|_| HeaderError::Magic)?;
        if raw.magic != *MAGIC {
            let is_empty = raw.as_bytes().iter().all(|byte| *byte == bytes[0]);
            return Err(if is_empty { HeaderError::Empty } else { HeaderError::Magic });
        }
        if raw.checksum != raw.compute_checksum() {
            return Err(HeaderError::Checksum);
        }
        if raw.layout != LAYOUT {
            return Err(HeaderError::Layout);
        }
        let version = raw.version.split(|byte| *byte == 0).next().unwrap_or_default();
        if !is_version(version) {
            return Err(HeaderError::Version);
        }
        let version = String::from_utf8_lossy(version).into_owned();
        Ok(Header { length: raw.length.get(), sha256: raw.sha256, version })
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
            Self::Layout => "its header has an unknown layout",
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
    fn the_layout_is_that_of_existing_disks() {
        let bytes = header().encode().unwrap();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(bytes[..24], *b"OSBSLOT\0\x01\0\0\0\0\0\0\0\0\0\x60\x04\0\0\0\0");
        assert_eq!((&bytes[24..56], &bytes[56..63]), (&[7; 32][..], &b"1.35.8\0"[..]));
        // The value that zlib computes.
        assert_eq!(bytes[4092..], 0x6C2A_4D88_u32.to_le_bytes());
    }

    #[test]
    fn an_empty_slot_is_not_a_damaged_one() {
        assert_eq!(Header::parse(&[0; 4096]), Err(HeaderError::Empty));
        assert_eq!(Header::parse(&[0xFF; 4096]), Err(HeaderError::Empty));
        assert_eq!(Header::parse(&[0; 4095]), Err(HeaderError::Magic));
        assert_eq!(
            Header::parse(&[b"MZ".as_slice(), &[0; 4094]].concat()),
            Err(HeaderError::Magic)
        );
    }

    #[test]
    fn any_flipped_bit_is_refused() {
        let mut bytes = header().encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn an_unprintable_version_is_neither_written_nor_read() {
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
        fn no_bytes_make_it_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 4096),
            begins: bool,
            sums: bool,
        ) {
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
