//! Uploads the blocks of a disk, many at the same time.

use super::content::Content;
use crate::error::Error;
use crate::report::Step;
use osbuild_aws::{BLOCK_SIZE, RegionalClient};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// After how many more blocks the snapshot's tag is updated. An interrupted upload sends at most
/// 32 MiB again.
const TAG_INTERVAL: usize = 64;

/// Why an upload failed.
pub enum Failed {
    /// A call to AWS failed.
    Call(osbuild_aws::Error),
    /// The disk cannot be read.
    Disk(Error),
}

impl From<osbuild_aws::Error> for Failed {
    fn from(error: osbuild_aws::Error) -> Self {
        Failed::Call(error)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Call(error) => error.into(),
            Failed::Disk(error) => error,
        }
    }
}

/// The blocks that have been sent.
struct Sent {
    each: Vec<bool>,
    /// All blocks before this one.
    prefix: usize,
    tagged: usize,
}

/// Sends the blocks of a disk to a snapshot, from the one with this position in [`Content::blocks`]
/// on. Calls `tag` at intervals, and at the end, with the number of blocks that were sent without a
/// gap.
///
/// # Errors
/// The first failure of any worker; the others stop before their next block.
pub fn send(
    here: &RegionalClient,
    snapshot: &str,
    content: &Content,
    first: usize,
    step: &Step,
    tag: &(dyn Fn(usize) -> osbuild_aws::Result<()> + Sync),
) -> Result<(), Failed> {
    let all = content.blocks.len();
    let first = first.min(all);
    step.advance((first * BLOCK_SIZE) as u64);
    let sent = Mutex::new(Sent { each: vec![false; all - first], prefix: first, tagged: first });
    let (next, failed) = (AtomicUsize::new(first), AtomicBool::new(false));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some((index, sha256)) = content.blocks.get(position) else { break };
            let block = content.block(*index).map_err(Failed::Disk)?;
            here.put_snapshot_block(snapshot, *index, block, sha256)?;
            step.advance(BLOCK_SIZE as u64);
            let prefix =
                sent.lock().expect("no panic while it counts").add(position - first, first);
            prefix.map_or(Ok(()), tag)?;
        }
        Ok(())
    };
    let work = || work().inspect_err(|_: &Failed| failed.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..here.transport.workers().min(all - first)).map(|_| scope.spawn(work)).collect();
        let ends =
            workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        ends.collect::<Vec<_>>().into_iter().collect::<Result<(), Failed>>()
    })?;
    Ok(tag(all)?)
}

impl Sent {
    /// Adds a block, and returns the number of blocks without a gap when the tag is due.
    fn add(&mut self, number: usize, first: usize) -> Option<usize> {
        self.each[number] = true;
        while self.each.get(self.prefix - first) == Some(&true) {
            self.prefix += 1;
        }
        (self.prefix >= self.tagged + TAG_INTERVAL).then(|| {
            self.tagged = self.prefix;
            self.prefix
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_after_a_gap_do_not_count() {
        let mut sent = Sent { each: vec![false; 200], prefix: 10, tagged: 10 };
        let counted: Vec<_> = (1..100).filter_map(|number| sent.add(number, 10)).collect();
        assert_eq!((counted, sent.prefix), (vec![], 10));
        assert_eq!(sent.add(0, 10), Some(110));
    }
}
