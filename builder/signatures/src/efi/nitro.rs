//! The firmware variables of an EC2 instance as an AMI stores them: `UefiData` of `RegisterImage`,
//! which AWS's `uefivars` and virt-firmware read and write.

use super::{ATTRIBUTES, Update};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc::{CRC_32_ISCSI, Crc};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// The magic number, and the version of the format.
const MAGIC: &[u8; 8] = b"AMZNUEFI";
const VERSION: u32 = 0;

/// The maximum bytes of base64 that EC2 accepts.
const MAX_LENGTH: usize = 64 << 10;

/// Returns the text of `UefiData` with the variables that these updates would set; `None` if it is
/// longer than the 64 KiB that EC2 accepts. `PK` is one of them, so Secure Boot is on from the
/// instance's first start.
///
/// The variables are compressed without the dictionary of AWS's own tool: a reader that has the
/// dictionary does not require it.
pub fn uefi_data(updates: &[Update]) -> Option<String> {
    let mut variables: Vec<&Update> = updates.iter().collect();
    variables.sort_by_key(|update| update.variable.name());
    let mut plain = length(variables.len()).to_vec();
    for update in variables {
        plain.extend(blob(update.variable.name().as_bytes()));
        plain.extend(blob(&update.content));
        plain.extend(update.variable.vendor().to_bytes_le());
        plain.extend(ATTRIBUTES.to_le_bytes());
        plain.extend(update.time.bytes());
        // The digest of a certificate, which the firmware stores for other kinds of variables.
        plain.extend(blob(&[]));
    }
    let mut packed = ZlibEncoder::new(VERSION.to_le_bytes().to_vec(), Compression::best());
    let packed = packed
        .write_all(&plain)
        .and_then(|()| packed.finish())
        .expect("a vector takes all that is written");
    let sum = Crc::<u32>::new(&CRC_32_ISCSI).checksum(&packed);
    let text = STANDARD.encode([&MAGIC[..], &sum.to_le_bytes(), &packed].concat());
    (text.len() <= MAX_LENGTH).then_some(text)
}

fn length(length: usize) -> [u8; 8] {
    (length as u64).to_le_bytes()
}

/// The bytes after their length.
fn blob(bytes: &[u8]) -> Vec<u8> {
    [&length(bytes.len())[..], bytes].concat()
}
