//! Reads what somebody else may have made: never more than a node of ours can have, whatever a
//! file, a partition table or a header says of its own length, and never more than there is memory
//! for.

use crate::error::{Context, Error, Result};
use crate::plan::{MAX_ESP_SIZE_MIB, MAX_SLOT_SIZE_MIB};
use crate::report::bytes;
use osbuild_formats::pe::Headers;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The most bytes of a UKI or an initramfs: those of the largest slot that a board can have.
pub(super) const MAX_UKI: u64 = MAX_SLOT_SIZE_MIB << 20;

/// The most bytes of an EFI system partition.
pub(super) const MAX_ESP: u64 = MAX_ESP_SIZE_MIB << 20;

/// What is read of a PE image to know how long it is: linkers put its headers into the first 4 KiB.
const BEGINNING: u64 = 64 << 10;

/// What may follow all that the headers of a PE image speak of: padding.
const MAX_PADDING: u64 = 64 << 10;

/// How much is read at once.
const CHUNK: u64 = 1 << 20;

/// Reads `length` bytes at `at`, of which there may be at most `max`. `what` says in an error what
/// they are.
///
/// # Errors
/// There are more, the file ends before, or there is no memory for them.
pub(super) fn read(file: &File, at: u64, length: u64, max: u64, what: &str) -> Result<Vec<u8>> {
    if length > max {
        return Err(Error::digest(format!(
            "{what} has {}, and on a node of ours at most {}",
            bytes(length),
            bytes(max)
        )));
    }
    let mut found = Vec::new();
    let short =
        |_| Error::build(format!("{what} has {}, more than there is memory for", bytes(length)));
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

/// Reads a UKI of `length` bytes at `at`. A good one is as long as its own headers say; of one
/// whose headers are damaged nobody knows how long it is.
///
/// # Errors
/// As [`read`]'s, or it goes on behind what its headers speak of.
pub(super) fn read_uki(file: &File, at: u64, length: u64, what: &str) -> Result<Vec<u8>> {
    let beginning = read(file, at, length.min(BEGINNING), BEGINNING, what)?;
    match Headers::parse(&beginning, length) {
        Ok(headers) if headers.end() + MAX_PADDING < length => {
            let end = bytes(headers.end());
            Err(Error::digest(format!(
                "{what} has {}, and its PE header speaks of {end}",
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
    fn no_more_is_read_than_the_bound_and_no_more_than_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 3 << 20]).unwrap();
        assert_eq!(read(&file, 1, (2 << 20) + 1, 3 << 20, "it").unwrap(), vec![7; (2 << 20) + 1]);
        assert_eq!(
            read(&file, 0, 5, 4, "it").unwrap_err().problems[0].message,
            "it has 5 B, and on a node of ours at most 4 B"
        );
        assert_eq!(
            read(&file, 0, (3 << 20) + 1, 4 << 20, "it").unwrap_err().problems[0].message,
            "cannot read it"
        );
    }
}
