//! The thread that writes a slot and digests what it writes, in parallel with the download.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_signatures::authenticode::Hasher;

/// Bytes between two flushes: unwritten bytes count against the pod's memory limit.
const FLUSH: u64 = 16 << 20;

/// The maximum number of queued blocks.
const MAX_QUEUED: usize = 4;

/// Writes blocks one after another. Dropping it waits for the thread, which closes the file.
pub struct Writer {
    // Dropped first, which ends the thread that `thread` waits for.
    blocks: SyncSender<Vec<u8>>,
    thread: Thread,
}

/// Receives the thread's outcome: at its first error, or after the last block.
struct Thread(Receiver<Outcome<Hasher>>);

impl Writer {
    /// Starts writing to `file` at `offset`.
    pub fn start(file: File, offset: u64) -> Writer {
        let (blocks, receiver) = sync_channel(MAX_QUEUED);
        let (sender, end) = sync_channel(1);
        thread::spawn(move || {
            let outcome = write(file, offset, receiver);
            // The receiver is gone if the download was cancelled.
            drop(sender.send(outcome));
        });
        Writer { blocks, thread: Thread(end) }
    }

    /// Queues a block. The error may be that of an earlier block.
    pub fn push(&self, block: Vec<u8>) -> Outcome {
        self.blocks.send(block).or_else(|_| self.thread.outcome().map(drop))
    }

    /// Waits until all blocks are on the medium, and returns the hasher that digested them.
    pub fn finish(self) -> Outcome<Hasher> {
        drop(self.blocks);
        self.thread.outcome()
    }
}

impl Thread {
    /// Waits for the thread to end.
    fn outcome(&self) -> Outcome<Hasher> {
        self.0
            .recv()
            .unwrap_or_else(|_| Err(Failure::new("write the slot: the writing thread ended")))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.outcome());
    }
}

/// Writes all blocks, and closes the file.
fn write(file: File, mut offset: u64, blocks: Receiver<Vec<u8>>) -> Outcome<Hasher> {
    let (what, mut hasher) = ("write the slot", Hasher::default());
    for block in blocks {
        hasher.push(&block);
        file.write_all_at(&block, offset).explain(what)?;
        let flushed = offset / FLUSH;
        offset += block.len() as u64;
        if offset / FLUSH > flushed {
            file.sync_data().explain(what)?;
        }
    }
    file.sync_all().explain(what)?;
    Ok(hasher)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_error_is_reported_at_the_next_block_and_at_the_end() {
        let full = || Writer::start(File::options().write(true).open("/dev/full").unwrap(), 0);
        let writer = full();
        let failure =
            (0..2 * MAX_QUEUED + 1).find_map(|_| writer.push(vec![0; 512]).err()).unwrap();
        assert!(failure.to_string().contains("No space left on device"), "{failure}");
        let writer = full();
        writer.push(vec![0; 512]).unwrap();
        assert!(writer.finish().is_err());
    }

    #[test]
    fn a_dropped_writer_has_closed_the_file() {
        let folder = tempfile::tempdir().unwrap();
        for ends in [|writer: Writer| _ = writer.finish().unwrap(), |writer: Writer| drop(writer)] {
            let path = folder.path().join("slot");
            let writer = Writer::start(File::create(&path).unwrap(), 0);
            writer.push(vec![1; 4 << 20]).unwrap();
            ends(writer);
            let held = std::fs::read_dir("/proc/self/fd").unwrap().map_while(Result::ok);
            assert_eq!(
                held.filter(|open| open.path().read_link().is_ok_and(|file| file == path)).count(),
                0
            );
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 << 20);
        }
    }
}
