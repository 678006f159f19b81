//! The clients that wait for the end of a job, each for a limited time: a job whose client has gone
//! or was answered is still done. It is pure.

use std::time::Duration;

use super::JobId;
use crate::sockets::ClientId;

/// How long a client waits at most, for a disk that is slow.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// The same for `status`, which a person needs to find a fault.
pub const STATUS_TIMEOUT: Duration = Duration::from_secs(30);

/// The clients, at most one request of each.
#[derive(Default)]
pub struct Waiting {
    clients: Vec<Waiter>,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The client.
    pub client: ClientId,
    /// The kind of reply that it waits for.
    pub wants: Wants,
    job: JobId,
    /// Until when it waits, since boot.
    until: Duration,
}

/// The kind of reply that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The status of the node: without the disk, only that of the slots is missing.
    NodeStatus,
    /// A reply that needs the disk.
    Disk,
}

impl Wants {
    /// How long a client waits for it.
    pub fn timeout(self) -> Duration {
        match self {
            Self::NodeStatus => STATUS_TIMEOUT,
            Self::Disk => TIMEOUT,
        }
    }
}

impl Waiting {
    /// A client waits for `job` from `now` on, since boot.
    pub fn add(&mut self, client: ClientId, job: JobId, wants: Wants, now: Duration) {
        self.clients.push(Waiter { client, wants, job, until: now + wants.timeout() });
    }

    /// The client that waits for a job that has ended, if it still does.
    pub fn take(&mut self, job: JobId) -> Option<Waiter> {
        let at = self.clients.iter().position(|waiter| waiter.job == job)?;
        Some(self.clients.remove(at))
    }

    /// When the time of a client is over, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.clients.iter().map(|waiter| waiter.until).min()
    }

    /// The clients whose time is over. They wait no longer.
    pub fn expired(&mut self, now: Duration) -> Vec<Waiter> {
        self.clients.extract_if(.., |waiter| waiter.until <= now).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_one_reply_at_the_end_of_its_job_or_of_its_time() {
        let mut waiting = Waiting::default();
        let client = ClientId::default();
        let jobs = [1, 2, 3].map(JobId::numbered);
        for (job, wants) in jobs.into_iter().zip([Wants::Disk, Wants::NodeStatus, Wants::Disk]) {
            waiting.add(client, job, wants, Duration::ZERO);
        }
        assert_eq!(waiting.take(jobs[0]).map(|waiter| waiter.client), Some(client));
        assert_eq!(waiting.take(jobs[0]), None);
        assert_eq!(waiting.deadline(), Some(STATUS_TIMEOUT));
        assert_eq!(waiting.expired(STATUS_TIMEOUT - Duration::from_secs(1)), []);
        assert_eq!(waiting.expired(STATUS_TIMEOUT)[0].job, jobs[1]);
        assert_eq!((waiting.take(jobs[1]), waiting.deadline()), (None, Some(TIMEOUT)));
        assert_eq!(waiting.expired(TIMEOUT).len(), 1);
        assert_eq!(waiting.deadline(), None);
    }
}
