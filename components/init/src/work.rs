//! Work that may wait for a disk, in a thread, so that PID 1 does not.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use osbuild_failure::{Failure, Outcome};

/// Work under way. If it never ends, its thread stays: the kernel cannot end a thread that waits
/// for a disk.
pub struct Work {
    outcome: Receiver<Outcome>,
}

impl Work {
    /// Starts it.
    pub fn start(work: impl FnOnce() -> Outcome + Send + 'static) -> Work {
        let (send, outcome) = channel();
        // The receiver is gone when the work has taken too long. Without a thread the channel
        // closes, which `outcome` reports.
        let _ = thread::Builder::new().spawn(move || send.send(work()));
        Work { outcome }
    }

    /// Its outcome, once it has ended.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Failure::new("there is no thread for it"))),
        }
    }

    /// Waits for its outcome, for `timeout` at most.
    pub fn wait(&self, timeout: Duration) -> Option<Outcome> {
        match self.outcome.recv_timeout(timeout) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => self.outcome(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_never_ends_is_not_waited_for() {
        assert_eq!(Work::start(|| Ok(())).wait(Duration::from_secs(10)), Some(Ok(())));
        let (_held, never) = channel::<()>();
        let endless = Work::start(move || {
            let _ = never.recv();
            Ok(())
        });
        assert_eq!(endless.outcome(), None);
        assert_eq!(endless.wait(Duration::from_millis(1)), None);
    }

    #[test]
    fn work_without_a_thread_ends_with_a_failure() {
        // As when no thread can be started. A panic of the work ends PID 1.
        let work = Work { outcome: channel().1 };
        assert!(matches!(work.outcome(), Some(Err(_))));
        assert!(matches!(work.wait(Duration::from_secs(10)), Some(Err(_))));
    }
}
