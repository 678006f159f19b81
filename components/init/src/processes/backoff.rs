//! How long to wait before a process that exited is started again.

use std::time::Duration;

/// The wait after the first failure, doubled for each further one.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
const MAX: Duration = Duration::from_secs(30);
/// A process that ran this long was healthy: its next failure counts as the first.
const HEALTHY: Duration = Duration::from_secs(60);

/// Counts the failures in a row of one process.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts an exit after the process ran for `ran`, and returns how long to wait.
    pub fn after(&mut self, ran: Duration) -> Duration {
        if ran >= HEALTHY {
            self.failures = 0;
        }
        let wait = FIRST.saturating_mul(1 << self.failures.min(16)).min(MAX);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// The process ran for `ran`, and is started again without a failure.
    pub fn on_restart(&mut self, ran: Duration) {
        self.failures = self.failures_while_it_runs(ran);
    }

    /// How many times in a row the process failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The same for a process that has run for `ran` since: none once it is healthy.
    pub fn failures_while_it_runs(&self, ran: Duration) -> u32 {
        if ran >= HEALTHY { 0 } else { self.failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_doubles_up_to_the_maximum() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..9).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!(backoff.failures(), 9);
    }

    #[test]
    fn a_healthy_run_resets_the_count() {
        let mut backoff = Backoff::default();
        for _ in 0..9 {
            backoff.after(Duration::ZERO);
        }
        assert_eq!(backoff.after(Duration::from_secs(60)), FIRST);
        assert_eq!(backoff.failures(), 1);
    }

    #[test]
    fn a_healthy_run_before_a_restart_on_request_resets_the_count() {
        let mut backoff = Backoff::default();
        backoff.after(Duration::ZERO);
        backoff.after(Duration::ZERO);
        backoff.on_restart(Duration::from_secs(59));
        assert_eq!(backoff.failures(), 2);
        backoff.on_restart(Duration::from_secs(60));
        assert_eq!(backoff.failures(), 0);
    }

    #[test]
    fn a_process_that_runs_healthily_does_not_fail_any_more() {
        let mut backoff = Backoff::default();
        backoff.after(Duration::ZERO);
        assert_eq!(backoff.failures_while_it_runs(Duration::from_secs(59)), 1);
        assert_eq!(backoff.failures_while_it_runs(Duration::from_secs(60)), 0);
    }

    #[test]
    fn the_count_does_not_overflow() {
        let mut backoff = Backoff { failures: u32::MAX };
        assert_eq!(backoff.after(Duration::ZERO), MAX);
    }
}
