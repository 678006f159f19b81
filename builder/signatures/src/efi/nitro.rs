//! The variables of an EC2 instance's firmware as an AMI holds them: `UefiData` of `RegisterImage`,
//! which AWS's `uefivars` and virt-firmware write and read.

use super::{ATTRIBUTES, Update};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc::{CRC_32_ISCSI, Crc};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// What the data begins with, and the version of what follows.
const MAGIC: &[u8; 8] = b"AMZNUEFI";
const VERSION: u32 = 0;

/// EC2 takes no more in base64.
const LONGEST: usize = 64 << 10;

/// The text of `UefiData` in which the variables hold what these updates would give them. As `PK`
/// is among them, Secure Boot is on from the instance's first start. Nothing, if it is longer than
/// the 64 KiB that EC2 takes.
///
/// The variables are compressed without the dictionary that AWS's own tool begins with: a reader
/// that has it does not need it then.
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
        // The digest of a certificate that the firmware would note for variables of other kinds.
        plain.extend(blob(&[]));
    }
    let mut packed = ZlibEncoder::new(VERSION.to_le_bytes().to_vec(), Compression::best());
    let packed = packed
        .write_all(&plain)
        .and_then(|()| packed.finish())
        .expect("a vector takes all that is written");
    let sum = Crc::<u32>::new(&CRC_32_ISCSI).checksum(&packed);
    let text = STANDARD.encode([&MAGIC[..], &sum.to_le_bytes(), &packed].concat());
    (text.len() <= LONGEST).then_some(text)
}

fn length(length: usize) -> [u8; 8] {
    (length as u64).to_le_bytes()
}

/// Bytes behind their length.
fn blob(bytes: &[u8]) -> Vec<u8> {
    [&length(bytes.len())[..], bytes].concat()
}
