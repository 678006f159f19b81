//! The blocks of a disk on their way, many at a time.

use super::content::{BLOCK, Block, Content};
use crate::produce::aws::{Action, Cloud, Failure, Method, Region, Request, Source};
use crate::report::Step;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// After how many more blocks the snapshot's tag is moved on: 32 MiB are sent again at most when an
/// upload breaks.
const NOTED_EVERY: usize = 64;

/// The call that failed, and why.
pub type Broken = (Action, Failure);

/// What has arrived.
struct Arrived {
    each: Vec<bool>,
    /// All before this one have.
    before: usize,
    noted: usize,
}

/// Sends the blocks of a disk from the one of number `first` in its list on to a snapshot. No block
/// is ever whole in memory. `note` is told how many have arrived without a gap, now and then and at
/// the end.
///
/// # Errors
/// The first failure of any worker; the others stop at their next block.
pub fn send(
    cloud: &dyn Cloud,
    region: &Region,
    snapshot: &str,
    content: &Content,
    first: usize,
    step: &Step,
    note: &(dyn Fn(usize) -> Result<(), Broken> + Sync),
) -> Result<(), Broken> {
    let all = content.blocks.len();
    let first = first.min(all);
    step.advance((first * BLOCK) as u64);
    let arrived =
        Mutex::new(Arrived { each: vec![false; all - first], before: first, noted: first });
    let (next, broken) = (AtomicUsize::new(first), AtomicBool::new(false));
    let work = || {
        while !broken.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = content.blocks.get(number).map(|block| content.block(*block)) else {
                break;
            };
            cloud
                .call(region, &put(snapshot, &block))
                .map_err(|failure| (Action::PutSnapshotBlock, failure))?;
            step.advance(BLOCK as u64);
            if let Some(before) =
                arrived.lock().expect("nobody panics while it counts").count(number - first, first)
            {
                note(before)?;
            }
        }
        Ok(())
    };
    let work = || work().inspect_err(|_: &Broken| broken.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..cloud.workers().min(all - first)).map(|_| scope.spawn(work)).collect();
        let ends =
            workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        ends.collect::<Vec<_>>().into_iter().collect::<Result<(), Broken>>()
    })?;
    note(all)
}

impl Arrived {
    /// Counts one block, and says how far all have arrived if that is worth a note.
    fn count(&mut self, number: usize, first: usize) -> Option<usize> {
        self.each[number] = true;
        while self.each.get(self.before - first) == Some(&true) {
            self.before += 1;
        }
        (self.before >= self.noted + NOTED_EVERY).then(|| {
            self.noted = self.before;
            self.before
        })
    }
}

fn put<'a>(snapshot: &str, block: &'a Block<'a>) -> Request<'a> {
    let headers = vec![
        ("content-type", "application/octet-stream".to_owned()),
        ("x-amz-data-length", block.length().to_string()),
        ("x-amz-checksum", STANDARD.encode(block.sha256())),
        ("x-amz-checksum-algorithm", "SHA256".to_owned()),
    ];
    let path = format!("/snapshots/{snapshot}/blocks/{}", block.index);
    Request::with_headers(Action::PutSnapshotBlock, Method::Put, path, headers).sending(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_a_gap_is_not_noted() {
        let mut arrived = Arrived { each: vec![false; 200], before: 10, noted: 10 };
        let noted: Vec<_> = (1..100).filter_map(|number| arrived.count(number, 10)).collect();
        assert_eq!((noted, arrived.before), (vec![], 10));
        assert_eq!(arrived.count(0, 10), Some(110));
    }
}
