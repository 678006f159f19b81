//! The checksum in the header of an image.

use crate::le;

/// Writes the checksum of `image` into its field, which stands at `field`.
pub(super) fn renew(image: &mut [u8], field: usize) {
    le::put(image, field, [0; 4]);
    let sum = checksum(image);
    le::put(image, field, sum.to_le_bytes());
}

/// The checksum of an image whose checksum field is zero.
fn checksum(image: &[u8]) -> u32 {
    let mut sum = Checksum::default();
    sum.push(image);
    sum.finish()
}

/// The checksum of an image that comes in pieces, with zeros in the place of its checksum: the sum
/// of its 16-bit words with the carry added in again, plus its length.
#[derive(Clone, Debug, Default)]
pub struct Checksum {
    sum: u64,
    length: u64,
}

impl Checksum {
    /// Takes the next piece.
    pub fn push(&mut self, mut piece: &[u8]) {
        // Words begin at multiples of four bytes of the image, wherever pieces do.
        while !self.length.is_multiple_of(4) && !piece.is_empty() {
            self.add(&piece[..1]);
            piece = &piece[1..];
        }
        let (words, rest) = piece.as_chunks::<4>();
        // 2¹⁶ ≡ 1 (mod 2¹⁶−1): so wider words give the same sum once it is folded.
        self.sum += words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>();
        self.length += 4 * words.len() as u64;
        rest.chunks(1).for_each(|byte| self.add(byte));
    }

    fn add(&mut self, byte: &[u8]) {
        self.sum += u64::from(byte[0]) * if self.length.is_multiple_of(2) { 1 } else { 256 };
        self.length += 1;
    }

    /// The checksum of all that came.
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
    fn the_checksum_of_systemds_stub_is_what_binutils_wrote() {
        let path = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
        let mut stub = std::fs::read(path)
            .unwrap_or_else(|error| panic!("{path}: {error}: install `systemd-boot-efi`"));
        let field = Image::parse(&stub).unwrap().checksum_offset();
        let expected = le::u32_at(&stub, field);
        le::put(&mut stub, field, [0; 4]);
        assert_eq!(Some(checksum(&stub)), expected);
        for size in [1, 3, 4, 7, 1000] {
            let mut pieces = Checksum::default();
            stub.chunks(size).for_each(|piece| pieces.push(piece));
            assert_eq!(Some(pieces.finish()), expected, "in pieces of {size}");
        }
    }
}
