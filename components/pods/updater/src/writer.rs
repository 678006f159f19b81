//! The thread that writes a slot, so that a download goes on while the disk is busy.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use osbuild_failure::{Explain, Failure, Outcome};

/// Bytes between two flushes: more of them would fill the pod's memory while they wait for the disk.
const FLUSH: u64 = 16 << 20;

/// Blocks that wait for the thread at most.
const WAITING: usize = 4;

/// Writes blocks one behind the other.
pub struct Writer {
    blocks: SyncSender<Vec<u8>>,
    /// How it went, once that is known: with the first error, or when there are no more blocks.
    end: Receiver<Outcome>,
}

impl Writer {
    /// Writes into `file`, from `offset` on.
    pub fn start(file: File, offset: u64) -> Writer {
        let (blocks, receiver) = sync_channel(WAITING);
        let (sender, end) = sync_channel(1);
        // Nobody waits any more for the end of a download that was broken off.
        thread::spawn(move || drop(sender.send(write(&file, offset, receiver))));
        Writer { blocks, end }
    }

    /// Has a block written behind those before it. An error may be one of theirs.
    pub fn push(&self, block: Vec<u8>) -> Outcome {
        self.blocks.send(block).or_else(|_| how_it_went(&self.end))
    }

    /// Waits until all blocks are on the medium.
    pub fn finish(self) -> Outcome {
        drop(self.blocks);
        how_it_went(&self.end)
    }
}

fn how_it_went(end: &Receiver<Outcome>) -> Outcome {
    end.recv().unwrap_or_else(|_| Err(Failure::new("write the slot: its thread is gone")))
}

fn write(file: &File, mut offset: u64, blocks: Receiver<Vec<u8>>) -> Outcome {
    let what = "write the slot";
    for block in blocks {
        file.write_all_at(&block, offset).explain(what)?;
        let flushed = offset / FLUSH;
        offset += block.len() as u64;
        if offset / FLUSH > flushed {
            file.sync_data().explain(what)?;
        }
    }
    file.sync_all().explain(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_refuses_to_be_written_is_told_of_at_once_and_at_the_end() {
        let full = || Writer::start(File::options().write(true).open("/dev/full").unwrap(), 0);
        let writer = full();
        let failure = (0..2 * WAITING).find_map(|_| writer.push(vec![0; 512]).err()).unwrap();
        assert!(failure.to_string().contains("No space left on device"), "{failure}");
        let writer = full();
        writer.push(vec![0; 512]).unwrap();
        assert!(writer.finish().is_err());
    }
}
