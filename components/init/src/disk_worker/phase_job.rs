//! The job with which the phase of the boot that is under way ends.

use osbuild_failure::Outcome;

use super::JobId;

/// The job of a phase.
#[derive(Debug, Default)]
pub enum PhaseJob {
    /// The phase has none.
    #[default]
    None,
    /// It has not ended.
    Waits(JobId),
    /// It has ended.
    Ended(Outcome),
}

impl PhaseJob {
    /// Whether the phase waits for this job.
    pub fn waits_for(&self, job: JobId) -> bool {
        matches!(self, Self::Waits(id) if *id == job)
    }

    /// Whether the job has succeeded.
    ///
    /// # Errors
    /// It has failed.
    pub fn is_done(&mut self) -> Outcome<bool> {
        match std::mem::take(self) {
            Self::Ended(outcome) => outcome.map(|()| true),
            waits => {
                *self = waits;
                Ok(false)
            }
        }
    }
}
