//! The processors of one build: as many as it has jobs, so that an action that counts processors
//! counts jobs. The number is not an argument of an action, because its digest would contain it.
//!
//! Builds at the same time use different processors. Each processor has a lock in the store, and a
//! build takes those that no other one holds. It starts at a random place, because the builds of
//! another user have their locks in another store.

use crate::engine::store::{Lock, Store};
use crate::error::{Context, Result};
use rustix::thread::CpuSet;
use std::hash::{BuildHasher, RandomState};

/// Processors that are locked until this is dropped.
pub(super) struct Processors {
    set: CpuSet,
    _locks: Vec<Lock>,
}

impl Processors {
    /// Chooses `jobs` of the processors that this process may use, or all of them if there are
    /// fewer.
    ///
    /// # Errors
    /// sched_getaffinity(2) fails, or the store cannot be written.
    pub(super) fn choose(store: &Store, jobs: usize) -> Result<Self> {
        let ours = rustix::thread::sched_getaffinity(None)
            .or_build(|| "cannot count the processors".to_owned())?;
        let allowed: Vec<usize> =
            (0..CpuSet::MAX_CPU).filter(|processor| ours.is_set(*processor)).collect();
        let anywhere = RandomState::new().hash_one(std::process::id()) as usize;
        let (chosen, locks) =
            choose_from(allowed, jobs.max(1), anywhere, |name| store.try_lock(name))?;
        let mut set = CpuSet::new();
        chosen.into_iter().for_each(|processor| set.set(processor));
        Ok(Processors { set, _locks: locks })
    }

    /// The argument of sched_setaffinity(2).
    pub(super) fn set(&self) -> CpuSet {
        self.set
    }
}

/// Chooses `count` of `allowed`, those with a free lock first, starting at a multiple of `count`,
/// because neighbours share caches and memory.
fn choose_from<L>(
    mut allowed: Vec<usize>,
    count: usize,
    anywhere: usize,
    lock: impl Fn(&str) -> Result<Option<L>>,
) -> Result<(Vec<usize>, Vec<L>)> {
    if count >= allowed.len() {
        return Ok((allowed, Vec::new()));
    }
    let places = allowed.len().div_ceil(count);
    allowed.rotate_left((anywhere % places) * count);
    let (mut chosen, mut held, mut locks) = (Vec::new(), Vec::new(), Vec::new());
    for processor in allowed {
        if chosen.len() == count {
            break;
        }
        match lock(&format!("processor-{processor}"))? {
            Some(lock) => {
                chosen.push(processor);
                locks.push(lock);
            }
            None => held.push(processor),
        }
    }
    // With more builds than processors, the rest is shared.
    chosen.extend(held.into_iter().take(count - chosen.len()));
    Ok((chosen, locks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn chosen(store: &Store, of: usize, count: usize, anywhere: usize) -> (Vec<usize>, Vec<Lock>) {
        choose_from((0..of).collect(), count, anywhere, |name| store.try_lock(name)).unwrap()
    }

    #[test]
    fn eight_builds_at_the_same_time_share_no_processor() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_owned()).unwrap();
        let mut builds: Vec<_> = (0..8).map(|build| chosen(&store, 64, 8, build * build)).collect();
        let used: BTreeSet<usize> = builds.iter().flat_map(|(chosen, _)| chosen).copied().collect();
        assert_eq!(used.len(), 64);
        // A ninth must share, and when one has ended the tenth takes its place.
        assert_eq!((chosen(&store, 64, 8, 3).0.len(), chosen(&store, 64, 8, 3).1.len()), (8, 0));
        let mut ended = builds.remove(2).0;
        let mut next = chosen(&store, 64, 8, 0).0;
        ended.sort();
        next.sort();
        assert_eq!(next, ended);
    }

    #[test]
    fn builds_with_different_stores_start_at_different_processors() {
        let alone =
            |anywhere| choose_from((0..64).collect(), 8, anywhere, |_| Ok(Some(()))).unwrap().0;
        assert_eq!((alone(0)[0], alone(1)[0], alone(7)[0], alone(8)[0]), (0, 8, 56, 0));
        assert_eq!(choose_from((0..3).collect(), 2, 1, |_| Ok(Some(()))).unwrap().0, [2, 0]);
    }

    #[test]
    fn a_build_with_enough_jobs_takes_all_processors_and_no_lock() {
        let (chosen, locks) = choose_from(vec![1, 3], 2, 5, |_| -> Result<Option<()>> {
            panic!("nothing is to be locked")
        })
        .unwrap();
        assert_eq!((chosen, locks.len()), (vec![1, 3], 0));
    }

    #[test]
    fn a_step_sees_as_many_processors_as_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_owned()).unwrap();
        assert_eq!(Processors::choose(&store, 1).unwrap().set().count(), 1);
    }
}
