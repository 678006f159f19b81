//! The slot that is written: the UKI first, and its header last.

use std::fs::File;
use std::os::unix::fs::FileExt;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::Header;

use crate::failure::{Explain, Failure, Outcome};
use crate::memory::Mapped;

/// Bytes between two flushes: more of them would fill the pod's memory while they wait for the disk.
const FLUSH: u64 = 16 << 20;

/// A slot that `init` has taken out of use and whose header it has erased.
pub struct Slot {
    file: File,
    /// Bytes that it has room for.
    room: u64,
    written: u64,
}

impl Slot {
    /// The slot behind this descriptor.
    pub fn new(file: File, room: u64) -> Slot {
        Slot { file, room, written: 0 }
    }

    /// Writes the next piece of the UKI.
    pub fn push(&mut self, piece: &[u8]) -> Outcome {
        let at = HEADER_SIZE + self.written;
        if at + piece.len() as u64 > self.room {
            return Err(Failure::new(format!("the release does not fit the slot, which has room for {} bytes", self.room)));
        }
        self.file.write_all_at(piece, at).explain("write the slot")?;
        let flushed = self.written / FLUSH;
        self.written += piece.len() as u64;
        if self.written / FLUSH > flushed { self.file.sync_data().explain("write the slot") } else { Ok(()) }
    }

    /// What was written, as it is read back.
    pub fn uki(&self) -> Outcome<Uki> {
        self.file.sync_all().explain("write the slot")?;
        let length = usize::try_from(HEADER_SIZE + self.written).explain("read the slot")?;
        Mapped::new(&self.file, length).map(Uki).explain("read the slot")
    }

    /// Writes the header, once all before it is on the medium. Then the slot is whole.
    pub fn finish(self, header: &Header) -> Outcome {
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
