//! The checksum in the header of an image.

use crate::le;

/// Writes the checksum of `image` into its field, which stands at `field`.
pub(super) fn renew(image: &mut [u8], field: usize) {
    le::put(image, field, [0; 4]);
    let sum = checksum(image);
    le::put(image, field, sum.to_le_bytes());
}

/// The checksum of an image whose checksum field is zero: the sum of its 16-bit words with the carry added in again, plus its
/// length.
fn checksum(image: &[u8]) -> u32 {
    // 2¹⁶ ≡ 1 (mod 2¹⁶−1): so wider words give the same sum once it is folded.
    let (words, rest) = image.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    sum += rest.iter().zip([1, 256, 1]).map(|(byte, weight)| u64::from(*byte) * weight).sum::<u64>();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    (sum as u32).wrapping_add(image.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::Image;

    #[test]
    fn the_checksum_of_systemds_stub_is_what_binutils_wrote() {
        let path = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
        let mut stub = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}: install `systemd-boot-efi`"));
        let field = Image::parse(&stub).unwrap().checksum_offset();
        let expected = le::u32_at(&stub, field);
        le::put(&mut stub, field, [0; 4]);
        assert_eq!(Some(checksum(&stub)), expected);
    }
}
