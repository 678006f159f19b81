//! Inputs for parsers of large objects: changes to a valid object.
//!
//! A change is the number of a region, an offset in the region (16 bits, little-endian), a length,
//! and that many bytes.

/// Decodes the changes of an input to an object of `size` bytes whose regions begin at these
/// offsets. Returns the offset and the bytes of each, cut at the object's end.
pub fn changes<'a>(
    mut input: &'a [u8],
    regions: &'a [usize],
    size: usize,
) -> impl Iterator<Item = (usize, &'a [u8])> {
    std::iter::from_fn(move || {
        let ([region, low, high, length], rest) = input.split_first_chunk()?;
        let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        input = rest;
        let start = regions[usize::from(*region) % regions.len()]
            + usize::from(u16::from_le_bytes([*low, *high]));
        let start = start.min(size);
        Some((start, &bytes[..bytes.len().min(size - start)]))
    })
}

/// Encodes a change. `bytes` has at most 255 bytes.
pub fn change(region: u8, place: u16, bytes: &[u8]) -> Vec<u8> {
    let [low, high] = place.to_le_bytes();
    [&[region, low, high, bytes.len() as u8], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_back_and_cut_at_the_end() {
        let input = [change(1, 3, b"ab"), change(0, 9, b"cdef"), change(1, 60_000, b"g")].concat();
        assert!(changes(&input, &[0, 5], 11).eq([(8, &b"ab"[..]), (9, b"cd"), (11, b"")]));
    }
}
