//! The superblock of DATA, as `init` mends it after a power cut.

use std::convert::Infallible;

use osbuild_formats::ext4;
use osbuild_formats::gpt::Source;

use crate::target::{Answer, Memory, Target};

/// See the module. An input is the first superblock and then the second one, wherever the first
/// says that it is.
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

fn run(input: &[u8]) -> Answer {
    let Some((first, Some((second, _)))) =
        input.split_first_chunk().map(|(first, rest)| (first, rest.split_first_chunk()))
    else {
        return Answer::Refused;
    };
    let mut volume = Volume([*first, *second]);
    let Ok(Some(write)) = ext4::mend(&mut volume) else { return Answer::Refused };
    let start = write.offset as usize - SIZE;
    let mended = &mut volume.0[0][start..start + write.bytes.len()];
    let changed = mended.iter().zip(&write.bytes).filter(|(old, new)| old != new).count();
    assert!((1..=4).contains(&changed), "a checksum is written, and nothing else");
    mended.copy_from_slice(&write.bytes);
    assert_eq!(ext4::mend(&mut volume), Ok(None), "what was mended is good");
    Answer::Taken
}

fn seeds() -> Vec<Vec<u8>> {
    let mut superblock = [0; SIZE];
    // The blocks of a group, the magic number, and that there are checksums; of which this is none.
    for (place, field) in [(0x20, 32768u32), (0x38, 0xEF53), (0x64, 0x400), (0x3FC, 0)] {
        superblock[place..place + 4].copy_from_slice(&field.to_le_bytes());
    }
    let mut other = superblock;
    other[0x58] = 1;
    vec![superblock.repeat(2), [superblock, other].concat(), superblock.to_vec()]
}
