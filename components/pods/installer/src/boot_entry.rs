//! An entry of the firmware's boot menu (`EFI_LOAD_OPTION`, UEFI 2.10, 3.1.3) for the system
//! partition of a disk.

use osbuild_formats::gpt::Partition;

/// The name of the entry. An existing entry with this name is ours, and is replaced.
pub const NAME: &str = "osbuild node";

/// `LOAD_OPTION_ACTIVE`
const ACTIVE: u32 = 1;
/// Bytes before the name: the attributes, and the length of the device path.
const HEAD: usize = 6;

/// Encodes an entry that starts a program from the system partition; `program` is its path with
/// slashes. The device path has the short form that starts with the partition (10.3.5.1), so it
/// does not matter where the disk is plugged in.
pub fn encode(esp: &Partition, program: &str) -> Vec<u8> {
    let path = [hard_drive(esp), file(program), vec![0x7F, 0xFF, 4, 0]].concat();
    let length = u16::try_from(path.len()).expect("a path of three nodes is short");
    [&ACTIVE.to_le_bytes()[..], &length.to_le_bytes(), &text(NAME), &path].concat()
}

/// Whether an entry is one of ours.
pub fn is_ours(entry: &[u8]) -> bool {
    entry.get(HEAD..).is_some_and(|rest| rest.starts_with(&text(NAME)))
}

/// Puts this entry first in the order of the boot menu (`BootOrder`: numbers of two bytes).
pub fn move_first(number: u16, order: &[u8]) -> Vec<u8> {
    let (others, _) = order.as_chunks::<2>();
    let others = others.iter().filter(|other| **other != number.to_le_bytes());
    number.to_le_bytes().into_iter().chain(others.flatten().copied()).collect()
}

/// The node for a partition (10.3.5.1): media device path, hard drive.
fn hard_drive(partition: &Partition) -> Vec<u8> {
    const GPT: u8 = 2;
    const BY_GUID: u8 = 2;
    [
        &[4, 1, 42, 0][..],
        &partition.number.to_le_bytes(),
        &partition.first.to_le_bytes(),
        &partition.sectors().to_le_bytes(),
        &partition.guid.to_bytes_le(),
        &[GPT, BY_GUID],
    ]
    .concat()
}

/// The node for a file (10.3.5.4): media device path, file path.
fn file(path: &str) -> Vec<u8> {
    let path = text(&format!("\\{}", path.replace('/', "\\")));
    let length = u16::try_from(path.len() + 4).expect("the path of a boot program is short");
    [&[4, 4][..], &length.to_le_bytes(), &path].concat()
}

/// A text in UCS-2, with its terminator.
fn text(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::uuid;

    fn esp() -> Partition {
        Partition {
            number: 1,
            type_guid: uuid!("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"),
            guid: uuid!("00112233-4455-6677-8899-aabbccddeeff"),
            first: 2048,
            last: 133_119,
            attributes: 0,
            name: "ESP".to_owned(),
        }
    }

    /// The bytes follow the tables of UEFI 2.10: 3.1.3, 10.3.5.1 and 10.3.5.4. A path of 21 letters
    /// with its terminator has 44 bytes, after 4 bytes of the node's header.
    #[test]
    fn the_entry_follows_the_specification() {
        let mut expected = vec![1, 0, 0, 0, 42 + 48 + 4, 0];
        expected.extend(b"o\0s\0b\0u\0i\0l\0d\0 \0n\0o\0d\0e\0\0\0");
        expected.extend([4, 1, 42, 0, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]);
        expected.extend([
            0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE,
            0xFF, 2, 2,
        ]);
        expected.extend([4, 4, 48, 0]);
        expected
            .extend(b"\\\0E\0F\0I\0\\\0B\0O\0O\0T\0\\\0B\0O\0O\0T\0X\x006\x004\0.\0E\0F\0I\0\0\0");
        expected.extend([0x7F, 0xFF, 4, 0]);
        assert_eq!(encode(&esp(), "EFI/BOOT/BOOTX64.EFI"), expected);
    }

    #[test]
    fn only_our_own_entry_is_recognized() {
        let ours = encode(&esp(), "x");
        assert!(is_ours(&ours));
        for other in [&ours[..10], &[], &[1, 0, 0, 0, 0, 0, b'W', 0]] {
            assert!(!is_ours(other));
        }
    }

    #[test]
    fn an_entry_is_moved_to_the_front_once() {
        assert_eq!(move_first(2, &[1, 0, 2, 0, 3, 0]), [2, 0, 1, 0, 3, 0]);
        assert_eq!(move_first(2, &[]), [2, 0]);
    }
}
