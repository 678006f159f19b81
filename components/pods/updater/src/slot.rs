//! The slot that is written: the UKI first, and its header last.

use std::fs::File;
use std::os::unix::fs::FileExt;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_slots::Header;

use crate::memory::Mapped;

/// Bytes between two flushes: more of them would fill the pod's memory while they wait for the disk.
const FLUSH: u64 = 16 << 20;

/// Bytes of a write. A piece that comes over a network ends anywhere; written as it comes, the kernel would have to read the rest of each last
/// block from the medium first.
const BLOCK: usize = 1 << 20;

/// A slot that `init` has taken out of use and whose header it has erased.
pub struct Slot {
    file: File,
    /// Bytes that it has room for.
    room: u64,
    /// Bytes of the UKI that were written.
    written: u64,
    /// Those behind them that wait for a whole block.
    waiting: Vec<u8>,
}

impl Slot {
    /// The slot behind this descriptor.
    pub fn new(file: File, room: u64) -> Slot {
        Slot { file, room, written: 0, waiting: Vec::with_capacity(BLOCK) }
    }

    /// Takes the next piece of the UKI, and writes what has become a whole block.
    pub fn push(&mut self, mut piece: &[u8]) -> Outcome {
        if HEADER_SIZE + self.written + (self.waiting.len() + piece.len()) as u64 > self.room {
            return Err(Failure::new(format!("the release does not fit the slot, which has room for {} bytes", self.room)));
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

    /// Writes what waits.
    fn write(&mut self) -> Outcome {
        self.file.write_all_at(&self.waiting, HEADER_SIZE + self.written).explain("write the slot")?;
        let flushed = self.written / FLUSH;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        if self.written / FLUSH > flushed { self.file.sync_data().explain("write the slot") } else { Ok(()) }
    }

    /// What was written, as it is read back.
    pub fn uki(&mut self) -> Outcome<Uki> {
        self.write()?;
        self.file.sync_all().explain("write the slot")?;
        let length = usize::try_from(HEADER_SIZE + self.written).explain("read the slot")?;
        Mapped::new(&self.file, length).map(Uki).explain("read the slot")
    }

    /// Writes the header, once all before it is on the medium. Then the slot is whole.
    pub fn finish(mut self, header: &Header) -> Outcome {
        self.write()?;
        if header.length != self.written {
            return Err(Failure::new(format!("the UKI has {} bytes, and {} have come", header.length, self.written)));
        }
        let bytes = header.encode().explain("make the slot's header")?;
        self.file.sync_all().and_then(|()| self.file.write_all_at(&bytes, 0)).explain("write the slot's header")?;
        self.file.sync_all().explain("write the slot's header")
    }
}

/// A UKI in its slot.
pub struct Uki(Mapped);

impl Uki {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0[HEADER_SIZE as usize..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_are_written_in_whole_blocks() {
        let file = tempfile::tempfile().unwrap();
        let mut slot = Slot::new(file.try_clone().unwrap(), 8 << 20);
        let uki: Vec<u8> = (0..3 * BLOCK + 5).map(|number| (number / 7) as u8).collect();
        for piece in uki.chunks(14_321) {
            slot.push(piece).unwrap();
            assert_eq!(file.metadata().unwrap().len().saturating_sub(HEADER_SIZE) % BLOCK as u64, 0);
        }
        assert_eq!(slot.uki().unwrap().bytes(), uki);
        let header = Header { length: uki.len() as u64, sha256: [1; 32], version: "2".to_owned() };
        slot.finish(&header).unwrap();
        let mut bytes = vec![0; HEADER_SIZE as usize + uki.len()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(Header::parse(&bytes).unwrap(), header);
        assert_eq!(bytes[HEADER_SIZE as usize..], uki);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_written() {
        let mut slot = Slot::new(tempfile::tempfile().unwrap(), HEADER_SIZE + 10);
        slot.push(&[0; 10]).unwrap();
        assert!(slot.push(&[0]).is_err());
    }
}
