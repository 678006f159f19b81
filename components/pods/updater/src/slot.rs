//! The slot that is written: the UKI first, and its header last.

use std::fs::File;
use std::os::unix::fs::FileExt;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_signatures::authenticode::Hasher;
use osbuild_slots::Header;

use crate::memory::Mapped;
use crate::writer::Writer;

/// Bytes of a write. A piece that comes over a network ends anywhere; written as it comes, the
/// kernel would have to read the rest of each last block from the medium first.
const BLOCK: usize = 1 << 20;

/// A slot that `init` has taken out of use and whose header it has erased.
pub struct Slot {
    file: File,
    /// Bytes that it has room for.
    room: u64,
    /// Bytes of the UKI that the writer was given.
    given: u64,
    /// Those behind them that wait for a whole block.
    waiting: Vec<u8>,
    writer: Writer,
}

impl Slot {
    /// The slot behind this descriptor.
    pub fn new(file: File, room: u64) -> Outcome<Slot> {
        let writer = Writer::start(file.try_clone().explain("write the slot")?, HEADER_SIZE);
        Ok(Slot { file, room, given: 0, waiting: Vec::with_capacity(BLOCK), writer })
    }

    /// Takes the next piece of the UKI, and has what has become a whole block written.
    pub fn push(&mut self, mut piece: &[u8]) -> Outcome {
        if HEADER_SIZE + self.given + (self.waiting.len() + piece.len()) as u64 > self.room {
            return Err(Failure::new(format!(
                "the release does not fit the slot, which has room for {} bytes",
                self.room
            )));
        }
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(BLOCK - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            piece = later;
            if self.waiting.len() == BLOCK {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Ends the UKI, once all of it is on the medium.
    pub fn written(mut self) -> Outcome<Uki> {
        self.write()?;
        let hasher = self.writer.finish()?;
        let length = usize::try_from(HEADER_SIZE + self.given).explain("read the slot")?;
        let bytes = Mapped::new(&self.file, length).explain("read the slot")?;
        Ok(Uki { file: self.file, bytes, hasher })
    }

    /// Has written what waits.
    fn write(&mut self) -> Outcome {
        let block = std::mem::replace(&mut self.waiting, Vec::with_capacity(BLOCK));
        self.given += block.len() as u64;
        self.writer.push(block)
    }
}

/// A UKI in its slot, which has no header yet.
pub struct Uki {
    file: File,
    /// The slot up to its end.
    bytes: Mapped,
    hasher: Hasher,
}

impl Uki {
    /// Its bytes, as they are read back.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[HEADER_SIZE as usize..]
    }

    /// What has digested them as they came. That the slot holds the same is for `init` to find,
    /// which reads it back before it marks it.
    pub fn hasher(&self) -> Hasher {
        self.hasher.clone()
    }

    /// Writes the header. Then the slot is whole.
    pub fn finish(self, header: &Header) -> Outcome {
        let length = self.bytes().len() as u64;
        if header.length != length {
            return Err(Failure::new(format!(
                "the UKI has {} bytes, and {length} have come",
                header.length
            )));
        }
        let bytes = header.encode().explain("make the slot's header")?;
        self.file
            .write_all_at(&bytes, 0)
            .and_then(|()| self.file.sync_all())
            .explain("write the slot's header")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_are_written_as_one() {
        let file = tempfile::tempfile().unwrap();
        let mut slot = Slot::new(file.try_clone().unwrap(), 8 << 20).unwrap();
        let uki: Vec<u8> = (0..3 * BLOCK + 5).map(|number| (number / 7) as u8).collect();
        for piece in uki.chunks(14_321) {
            slot.push(piece).unwrap();
            assert_eq!(slot.given % BLOCK as u64, 0, "no block is written in parts");
        }
        let written = slot.written().unwrap();
        assert_eq!(written.bytes(), uki);
        let header = Header { length: uki.len() as u64, sha256: [1; 32], version: "2".to_owned() };
        written.finish(&header).unwrap();
        let mut bytes = vec![0; HEADER_SIZE as usize + uki.len()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(Header::parse(&bytes).unwrap(), header);
        assert_eq!(bytes[HEADER_SIZE as usize..], uki);
    }

    #[test]
    fn a_header_for_another_length_is_not_written() {
        let file = tempfile::tempfile().unwrap();
        let mut slot = Slot::new(file.try_clone().unwrap(), 8 << 20).unwrap();
        slot.push(&[7; 100]).unwrap();
        let header = Header { length: 101, sha256: [1; 32], version: "2".to_owned() };
        assert!(slot.written().unwrap().finish(&header).is_err());
        let mut first = [1; 4];
        file.read_exact_at(&mut first, 0).unwrap();
        assert_eq!(first, [0; 4]);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_written() {
        let mut slot = Slot::new(tempfile::tempfile().unwrap(), HEADER_SIZE + 10).unwrap();
        slot.push(&[0; 10]).unwrap();
        assert!(slot.push(&[0]).is_err());
    }
}
