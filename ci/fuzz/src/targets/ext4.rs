//! The superblock of DATA and of volumes, as `init` reads it, and repairs it after a power cut.

use std::convert::Infallible;

use osbuild_formats::ext4;
use osbuild_formats::gpt::Source;

use crate::target::{Memory, Outcome, Target};

/// See the module. An input is the first superblock, followed by its backup, which the volume has
/// wherever the first one places it.
pub const TARGET: Target = Target { name: "ext4", seeds, run, memory: Memory::per_byte(4) };

const SIZE: usize = 1024;

struct Volume([[u8; SIZE]; 2]);

impl Source for Volume {
    type Error = Infallible;

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.0[usize::from(offset != SIZE as u64)]);
        Ok(())
    }
}

fn run(input: &[u8]) -> Outcome {
    let Some((first, Some((second, _)))) =
        input.split_first_chunk().map(|(first, rest)| (first, rest.split_first_chunk()))
    else {
        return Outcome::Refused;
    };
    let mut volume = Volume([*first, *second]);
    if let Ok(Some(found)) = ext4::identity(&mut volume) {
        assert!(!found.label.contains(char::is_control), "the label is shown");
    }
    let Ok(Some(write)) = ext4::mend(&mut volume) else { return Outcome::Refused };
    let start = write.offset as usize - SIZE;
    let mended = &mut volume.0[0][start..start + write.bytes.len()];
    let changed = mended.iter().zip(&write.bytes).filter(|(old, new)| old != new).count();
    assert!((1..=4).contains(&changed), "only a checksum is written");
    mended.copy_from_slice(&write.bytes);
    assert_eq!(ext4::mend(&mut volume), Ok(None), "a repaired superblock is valid");
    Outcome::Accepted
}

fn seeds() -> Vec<Vec<u8>> {
    let mut superblock = [0; SIZE];
    // The blocks of a group, the magic number, the feature of checksums, and a wrong checksum.
    for (place, field) in [(0x20, 32768u32), (0x38, 0xEF53), (0x64, 0x400), (0x3FC, 0)] {
        superblock[place..place + 4].copy_from_slice(&field.to_le_bytes());
    }
    let mut other = superblock;
    other[0x58] = 1;
    vec![superblock.repeat(2), [superblock, other].concat(), superblock.to_vec()]
}
