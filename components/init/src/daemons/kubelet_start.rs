//! The jobs of the disk worker that the next start of the kubelet waits for: one reads the facts
//! that decide the node's name, and then one prepares the start under that name. A later request
//! replaces an earlier one, so the end of a job counts only if no newer job was requested. It is
//! pure.

use crate::disk_worker::JobId;

/// The newest job of each kind that has not ended.
#[derive(Debug, Default)]
pub struct KubeletStart {
    name: Option<JobId>,
    prepared: Option<JobId>,
}

impl KubeletStart {
    /// Whether a start is under way.
    pub fn is_pending(&self) -> bool {
        self.name.is_some() || self.prepared.is_some()
    }

    /// Whether the name is about to be chosen, which leads to a start of its own.
    pub fn is_choosing(&self) -> bool {
        self.name.is_some()
    }

    /// This job reads what the name depends on. A start under the earlier name is not wanted.
    pub fn choose(&mut self, job: Option<JobId>) {
        *self = Self { name: job, prepared: None };
    }

    /// This job prepares the start.
    pub fn prepare(&mut self, job: Option<JobId>) {
        self.prepared = job;
    }

    /// A job that reads what the name depends on has ended. Returns whether it counts.
    pub fn on_name(&mut self, job: JobId) -> bool {
        self.name.take_if(|newest| *newest == job).is_some()
    }

    /// A job that prepares a start has ended. Returns whether it counts.
    pub fn on_prepared(&mut self, job: JobId) -> bool {
        self.prepared.take_if(|newest| *newest == job).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_replaces_a_start_under_the_earlier_one() {
        let [first, second, third] = [1, 2, 3].map(JobId::numbered);
        let mut start = KubeletStart::default();
        start.prepare(Some(first));
        start.choose(Some(second));
        assert!(!start.on_prepared(first) && start.is_choosing());
        assert!(start.on_name(second) && !start.is_pending());
        start.prepare(Some(third));
        assert!(start.on_prepared(third) && !start.is_pending());
    }

    #[test]
    fn only_the_newest_choice_counts() {
        let [first, second] = [1, 2].map(JobId::numbered);
        let mut start = KubeletStart::default();
        start.choose(Some(first));
        start.choose(Some(second));
        assert!(!start.on_name(first) && start.on_name(second) && !start.on_name(second));
    }
}
