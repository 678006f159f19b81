//! 32-bit little-endian numbers at arbitrary offsets: a FAT's entries, and EROFS' bit strings.

/// Reads the number at `offset`; `None` past the end.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// Writes `value` at `offset`, which must be within `bytes`.
#[cfg(feature = "fat-replace")]
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}
