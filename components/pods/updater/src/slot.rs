//! Writes a slot: first the UKI, and last its header.

use std::fs::File;
use std::os::unix::fs::FileExt;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_signatures::authenticode::Hasher;
use osbuild_slots::Header;

use crate::memory::Mapped;
use crate::writer::Writer;

/// Bytes per write. A piece from the network may end anywhere; writing it as it arrives would make
/// the kernel read the rest of its last block from the medium first.
const BLOCK: usize = 1 << 20;

/// A slot that `init` has taken out of use and whose header `init` has erased.
pub struct Slot {
    file: File,
    /// The size of the slot in bytes.
    size: u64,
    /// Bytes of the UKI passed to the writer so far.
    passed: u64,
    /// The bytes after them, less than a block.
    pending: Vec<u8>,
    writer: Writer,
}

impl Slot {
    /// Takes the slot's descriptor, and its size in bytes.
    pub fn new(file: File, size: u64) -> Outcome<Slot> {
        let writer = Writer::start(file.try_clone().explain("write the slot")?, HEADER_SIZE);
        Ok(Slot { file, size, passed: 0, pending: Vec::with_capacity(BLOCK), writer })
    }

    /// Takes the next piece of the UKI, and passes whole blocks to the writer.
    pub fn push(&mut self, mut piece: &[u8]) -> Outcome {
        if HEADER_SIZE + self.passed + (self.pending.len() + piece.len()) as u64 > self.size {
            return Err(Failure::new(format!(
                "the release does not fit into the slot, which has {} bytes",
                self.size
            )));
        }
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(BLOCK - self.pending.len()));
            self.pending.extend_from_slice(now);
            piece = later;
            if self.pending.len() == BLOCK {
                self.pass()?;
            }
        }
        Ok(())
    }

    /// Waits until the whole UKI is on the medium, and maps it.
    pub fn finish(mut self) -> Outcome<Uki> {
        self.pass()?;
        let hasher = self.writer.finish()?;
        let length = usize::try_from(HEADER_SIZE + self.passed).explain("read the slot")?;
        let bytes = Mapped::new(&self.file, length).explain("read the slot")?;
        Ok(Uki { file: self.file, bytes, hasher })
    }

    /// Passes the pending bytes to the writer.
    fn pass(&mut self) -> Outcome {
        let block = std::mem::replace(&mut self.pending, Vec::with_capacity(BLOCK));
        self.passed += block.len() as u64;
        self.writer.push(block)
    }
}

/// A UKI in a slot that has no header yet.
pub struct Uki {
    file: File,
    /// The slot from its start to the end of the UKI.
    bytes: Mapped,
    hasher: Hasher,
}

impl Uki {
    /// The UKI, read back from the medium.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[HEADER_SIZE as usize..]
    }

    /// The hasher that digested the UKI as it was written. `init` reads the slot back before it
    /// marks it, and so finds whether the slot holds the same bytes.
    pub fn hasher(&self) -> Hasher {
        self.hasher.clone()
    }

    /// Writes the header, which makes the slot complete.
    pub fn write_header(self, header: &Header) -> Outcome {
        let length = self.bytes().len() as u64;
        if header.length != length {
            return Err(Failure::new(format!(
                "the UKI has {} bytes, but {length} were received",
                header.length
            )));
        }
        let bytes = header.encode().explain("encode the slot's header")?;
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
    fn pieces_of_any_size_are_written_in_whole_blocks() {
        let file = tempfile::tempfile().unwrap();
        let mut slot = Slot::new(file.try_clone().unwrap(), 8 << 20).unwrap();
        let uki: Vec<u8> = (0..3 * BLOCK + 5).map(|number| (number / 7) as u8).collect();
        for piece in uki.chunks(14_321) {
            slot.push(piece).unwrap();
            assert_eq!(slot.passed % BLOCK as u64, 0, "no block is written in pieces");
        }
        let written = slot.finish().unwrap();
        assert_eq!(written.bytes(), uki);
        let header = Header { length: uki.len() as u64, sha256: [1; 32], version: "2".to_owned() };
        written.write_header(&header).unwrap();
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
        assert!(slot.finish().unwrap().write_header(&header).is_err());
        let mut first = [1; 4];
        file.read_exact_at(&mut first, 0).unwrap();
        assert_eq!(first, [0; 4]);
    }

    #[test]
    fn a_uki_that_does_not_fit_is_refused_before_it_is_written() {
        let mut slot = Slot::new(tempfile::tempfile().unwrap(), HEADER_SIZE + 10).unwrap();
        slot.push(&[0; 10]).unwrap();
        assert!(slot.push(&[0]).is_err());
    }
}
