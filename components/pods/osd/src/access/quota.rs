//! Quotas of the clients on the network. All clients share each limit, and each caller has at most
//! a quarter of it, so that one client does not keep out the others.

use crate::inspect::{MAX_READERS, capture::MAX_CAPTURES, reach};
use crate::limits::{MAX_REMOTE_BYTES, MAX_REMOTE_CALLS, MAX_REMOTE_CONNECTIONS, MAX_STRANGERS};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// One caller may hold this part of everything, but always one.
const PARTS: usize = 4;

/// A quantity that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Open connections.
    Connections,
    /// Calls, with watches and others that last.
    Calls,
    /// Bytes of requests that are read, and of responses that are not sent yet.
    Bytes,
    /// Logs and files that `osd inspect` reads.
    Readers,
    /// Targets that it tries.
    Probes,
    /// Captures of packets.
    Captures,
}

/// How many quantities there are.
const KINDS: usize = Limited::Captures as usize + 1;

impl Limited {
    /// How many all clients on the network may hold.
    fn max(self) -> usize {
        match self {
            Limited::Connections => MAX_REMOTE_CONNECTIONS,
            Limited::Calls => MAX_REMOTE_CALLS,
            Limited::Bytes => MAX_REMOTE_BYTES,
            Limited::Readers => MAX_READERS,
            Limited::Probes => reach::MAX_CALLS,
            Limited::Captures => MAX_CAPTURES,
        }
    }

    /// How many one of them may hold.
    fn part(self) -> usize {
        (self.max() / PARTS).max(1)
    }
}

impl Display for Limited {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Limited::Connections => "connections",
            Limited::Calls => "calls",
            Limited::Bytes => "bytes of messages",
            Limited::Readers => "logs and files",
            Limited::Probes => "calls of `Reach`",
            Limited::Captures => "captures",
        })
    }
}

/// Identifies a caller: the digest of its certificate, or of the name of its ServiceAccount.
pub type Holder = [u8; 32];

/// The usage of all clients on the network together, and of each caller.
#[derive(Debug)]
pub struct Quotas {
    all: Arc<Usage>,
    callers: Mutex<BTreeMap<Holder, Weak<Usage>>>,
    strangers: Arc<Semaphore>,
}

/// The place of a connection whose client is not known yet.
pub type StrangerPlace = OwnedSemaphorePermit;

/// How much is held of each that is limited.
#[derive(Debug, Default)]
struct Usage(Mutex<[usize; KINDS]>);

/// The quota of one caller, over all of its connections.
#[derive(Clone, Debug)]
pub struct Quota {
    all: Arc<Usage>,
    caller: Arc<Usage>,
}

/// Something that is held until this is dropped.
#[derive(Debug)]
pub struct Held {
    quota: Quota,
    limited: Limited,
    amount: usize,
}

impl Default for Quotas {
    fn default() -> Quotas {
        let strangers = Arc::new(Semaphore::new(MAX_STRANGERS));
        Quotas { all: Arc::default(), callers: Mutex::default(), strangers }
    }
}

impl Quotas {
    /// Waits until a stranger's connection has a place.
    pub async fn of_stranger(&self) -> StrangerPlace {
        self.strangers.clone().acquire_owned().await.expect("nothing closes this semaphore")
    }

    /// The quota of a caller, which its other connections share.
    pub fn of(&self, holder: Holder) -> Quota {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|_, usage| usage.strong_count() > 0);
        let caller = callers.get(&holder).and_then(Weak::upgrade).unwrap_or_default();
        callers.insert(holder, Arc::downgrade(&caller));
        Quota { all: self.all.clone(), caller }
    }
}

impl Quota {
    /// Holds an amount.
    ///
    /// # Errors
    /// The caller would hold more than its part, or all clients on the network more than there is:
    /// `RESOURCE_EXHAUSTED`.
    pub fn hold(&self, limited: Limited, amount: usize) -> Result<Held, Status> {
        let (max, part) = (limited.max(), limited.part());
        let (mut all, mut caller) = (self.all.lock(), self.caller.lock());
        let [of_all, of_caller] =
            [&all, &caller].map(|usage| usage[limited as usize].saturating_add(amount));
        if of_caller > part {
            return Err(Status::resource_exhausted(format!(
                "this client would hold more than {part} {limited}, its part of {max}"
            )));
        }
        if of_all > max {
            return Err(Status::resource_exhausted(format!(
                "clients on the network would hold more than {max} {limited}"
            )));
        }
        (all[limited as usize], caller[limited as usize]) = (of_all, of_caller);
        drop((all, caller));
        Ok(Held { quota: self.clone(), limited, amount })
    }

    /// Holds nothing yet.
    pub fn hold_none(&self, limited: Limited) -> Held {
        Held { quota: self.clone(), limited, amount: 0 }
    }

    /// Holds an amount that cannot be refused any more. Others are, until there is room again.
    pub fn hold_anyway(&self, limited: Limited, amount: usize) -> Held {
        for usage in [&self.all, &self.caller] {
            usage.lock()[limited as usize] += amount;
        }
        Held { quota: self.clone(), limited, amount }
    }
}

impl Held {
    /// Holds more.
    ///
    /// # Errors
    /// As [`Quota::hold`].
    pub fn grow(&mut self, amount: usize) -> Result<(), Status> {
        let mut more = self.quota.hold(self.limited, amount)?;
        self.amount += std::mem::take(&mut more.amount);
        Ok(())
    }
}

impl Usage {
    fn lock(&self) -> MutexGuard<'_, [usize; KINDS]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for usage in [&self.quota.all, &self.quota.caller] {
            usage.lock()[self.limited as usize] -= self.amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn a_caller_holds_a_quarter_over_all_of_its_connections() {
        let quotas = Quotas::default();
        let (first, second) = (quotas.of([1; 32]), quotas.of([1; 32]));
        let quarter = MAX_REMOTE_CALLS / 4;
        let half = first.hold(Limited::Calls, quarter / 2).unwrap();
        let rest = second.hold(Limited::Calls, quarter - quarter / 2).unwrap();
        let refused = first.hold(Limited::Calls, 1).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(first.hold(Limited::Connections, 1).is_ok(), "each limit is its own");
        drop(rest);
        assert!(first.hold(Limited::Calls, 1).is_ok());
        drop((half, first, second));
        quotas.of([2; 32]);
        assert_eq!(quotas.callers.lock().unwrap().len(), 1, "a caller that is gone leaves nothing");
    }

    #[test]
    fn no_caller_has_all_places_of_inspect() {
        let quotas = Quotas::default();
        let (first, second) = (quotas.of([1; 32]), quotas.of([2; 32]));
        for (limited, part) in [(Limited::Readers, 8), (Limited::Probes, 1), (Limited::Captures, 1)]
        {
            let held: Vec<_> = (0..part).map(|_| first.hold(limited, 1).unwrap()).collect();
            assert!(first.hold(limited, 1).is_err(), "{limited}");
            assert!(second.hold(limited, 1).is_ok(), "{limited}");
            drop(held);
        }
    }

    #[test]
    fn all_callers_together_hold_no_more_than_there_is() {
        let quotas = Quotas::default();
        let quarter = MAX_REMOTE_BYTES / 4;
        let held: Vec<_> =
            (0..4).map(|one| quotas.of([one; 32]).hold(Limited::Bytes, quarter).unwrap()).collect();
        let fifth = quotas.of([5; 32]);
        assert!(fifth.hold(Limited::Bytes, 1).is_err());
        let late = fifth.hold_anyway(Limited::Bytes, 7);
        drop(held);
        let mut grown = fifth.hold_none(Limited::Bytes);
        grown.grow(quarter - 7).unwrap();
        assert!(grown.grow(1).is_err());
        drop((late, grown));
        assert_eq!(*quotas.all.lock(), [0; KINDS]);
    }
}
