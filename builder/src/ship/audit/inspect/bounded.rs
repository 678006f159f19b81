//! Reads untrusted files. A length from a file, a partition table or a header is limited to the
//! largest that a node can have, and to the available memory.

use crate::error::{Context, Error, Result};
use crate::plan::{MAX_ESP_SIZE_MIB, MAX_SLOT_SIZE_MIB};
use crate::report::bytes;
use osbuild_formats::pe::Headers;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The maximum size of a UKI or an initramfs: the largest slot that a board can have.
pub(super) const MAX_UKI: u64 = MAX_SLOT_SIZE_MIB << 20;

/// The maximum size of an EFI system partition.
pub(super) const MAX_ESP: u64 = MAX_ESP_SIZE_MIB << 20;

/// How much of a PE image is read to find its length: linkers put the headers into the first 4 KiB.
const BEGINNING: u64 = 64 << 10;

/// How much padding may follow the last section of a PE image.
const MAX_PADDING: u64 = 64 << 10;

/// How much is read at once.
const CHUNK: u64 = 1 << 20;

/// Reads `length` bytes at the offset `at`. `what` names them in errors.
///
/// # Errors
/// `length` is above `max`, the file is shorter, or there is not enough memory.
pub(super) fn read(file: &File, at: u64, length: u64, max: u64, what: &str) -> Result<Vec<u8>> {
    if length > max {
        return Err(Error::digest(format!(
            "{what} has {}, but at most {} are allowed",
            bytes(length),
            bytes(max)
        )));
    }
    let mut found = Vec::new();
    let short =
        |_| Error::build(format!("{what} has {}, more than the free memory", bytes(length)));
    found.try_reserve_exact(length as usize).map_err(short)?;
    let mut chunk = vec![0; CHUNK.min(length) as usize];
    while (found.len() as u64) < length {
        let next = &mut chunk[..CHUNK.min(length - found.len() as u64) as usize];
        file.read_exact_at(next, at + found.len() as u64)
            .or_build(|| format!("cannot read {what}"))?;
        found.extend_from_slice(next);
    }
    Ok(found)
}

/// Reads a UKI of `length` bytes at the offset `at`. If its headers are intact, they must confirm
/// the length.
///
/// # Errors
/// As [`read`], or more than padding follows the last section.
pub(super) fn read_uki(file: &File, at: u64, length: u64, what: &str) -> Result<Vec<u8>> {
    let beginning = read(file, at, length.min(BEGINNING), BEGINNING, what)?;
    match Headers::parse(&beginning, length) {
        Ok(headers) if headers.end() + MAX_PADDING < length => {
            let end = bytes(headers.end());
            Err(Error::digest(format!(
                "{what} has {}, but its PE header describes only {end}",
                bytes(length)
            )))
        }
        _ => read(file, at, length, MAX_UKI, what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reading_beyond_the_maximum_or_the_end_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 3 << 20]).unwrap();
        assert_eq!(read(&file, 1, (2 << 20) + 1, 3 << 20, "it").unwrap(), vec![7; (2 << 20) + 1]);
        assert_eq!(
            read(&file, 0, 5, 4, "it").unwrap_err().problems[0].message,
            "it has 5 B, but at most 4 B are allowed"
        );
        assert_eq!(
            read(&file, 0, (3 << 20) + 1, 4 << 20, "it").unwrap_err().problems[0].message,
            "cannot read it"
        );
    }
}
