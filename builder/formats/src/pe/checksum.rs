//! The checksum in the header of an image.

/// Updates the checksum of `image`, whose field is at this offset.
pub(super) fn renew(image: &mut [u8], field: usize) {
    image[field..][..4].fill(0);
    let sum = checksum(image);
    image[field..][..4].copy_from_slice(&sum.to_le_bytes());
}

/// Computes the checksum of an image whose checksum field is zero.
fn checksum(image: &[u8]) -> u32 {
    let mut sum = Checksum::default();
    sum.push(image);
    sum.finish()
}

/// Computes the checksum of an image in pieces, with zeros in place of its checksum: the sum of its
/// 16-bit words with end-around carry, plus its length.
#[derive(Clone, Debug, Default)]
pub struct Checksum {
    sum: u64,
    length: u64,
}

impl Checksum {
    /// Adds the next piece.
    pub fn push(&mut self, mut piece: &[u8]) {
        // Words are aligned in the image, not in its pieces.
        while !self.length.is_multiple_of(4) && !piece.is_empty() {
            self.add(&piece[..1]);
            piece = &piece[1..];
        }
        let (words, rest) = piece.as_chunks::<4>();
        // 2¹⁶ ≡ 1 (mod 2¹⁶−1), so 32-bit words give the same folded sum.
        self.sum += words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>();
        self.length += 4 * words.len() as u64;
        rest.chunks(1).for_each(|byte| self.add(byte));
    }

    fn add(&mut self, byte: &[u8]) {
        self.sum += u64::from(byte[0]) * if self.length.is_multiple_of(2) { 1 } else { 256 };
        self.length += 1;
    }

    /// Returns the checksum of all pieces.
    pub fn finish(&self) -> u32 {
        let mut sum = self.sum;
        while sum > 0xFFFF {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        (sum as u32).wrapping_add(self.length as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::Image;

    #[test]
    fn the_checksum_of_systemds_stub_is_that_of_binutils() {
        let path = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
        let mut stub = std::fs::read(path)
            .unwrap_or_else(|error| panic!("{path}: {error}: install `systemd-boot-efi`"));
        let field = Image::parse(&stub).unwrap().checksum_offset();
        let expected = u32::from_le_bytes(*stub[field..].first_chunk().unwrap());
        stub[field..][..4].fill(0);
        assert_eq!(checksum(&stub), expected);
        for size in [1, 3, 4, 7, 1000] {
            let mut pieces = Checksum::default();
            stub.chunks(size).for_each(|piece| pieces.push(piece));
            assert_eq!(pieces.finish(), expected, "in pieces of {size}");
        }
    }
}
