//! Runs a table of phases from top to bottom. Boot and shutdown are such tables, with one set of
//! words for when a phase ends and what its failure means.
//!
//! A [`Machine`] carries out each step, so a test runs any table without a node.

pub mod disk_wait;

use std::time::Duration;

use osbuild_failure::{Failure, Outcome};

use crate::processes::program::Program;
use disk_wait::{DiskWait, Next};

/// One phase of a table. `Step` is the type of its action.
pub struct Phase<Step: 'static> {
    /// Its name on the console.
    pub name: &'static str,
    /// Its action.
    pub step: Step,
    /// When it ends.
    pub ends: Ends,
    /// The consequence of its failure.
    pub on_failure: OnFailure,
}

/// When a phase ends, and the next one starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// When its step returns.
    AtOnce,
    /// When the condition holds. It fails after the timeout.
    When(Condition, Duration),
    /// When the condition holds, or the time is over.
    Within(Condition, Duration),
    /// When the condition holds, or a disk makes no progress for so long.
    WhileProgress(Condition, Duration, &'static str),
    /// Later: the next phase does not wait for it.
    Later,
}

/// A condition that a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A daemon accepts connections.
    Accepts(Program),
    /// A job has succeeded.
    Done(Program),
    /// A program runs.
    Runs(Program),
    /// A program does not run.
    Stopped(Program),
    /// The disk worker has done the job of the phase. If the job fails, so does the phase.
    JobDone,
    /// The disk worker has done all jobs, or has not ended one for too long.
    JobsEnded,
    /// Nothing delays the shutdown any longer.
    InhibitorsGone,
    /// `init` has no child.
    NoChildren,
    /// The writer has written everything and has ended.
    WriterEnded,
    /// The work that the phase started in a thread is finished.
    WorkFinished,
}

/// The consequence of a phase's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The node cannot go on: it prints the reason and reboots.
    Reboot,
    /// The same, and the containers and images on DATA may be the cause: the failure counts for
    /// the [reset of containerd's state](crate::data::containerd_reset).
    CountAndReboot,
    /// The console shows it, and the next phase starts.
    Note,
}

/// The state of the node that a sequence reads, and the console to which it reports.
pub trait Surroundings {
    /// The time since boot.
    fn now(&self) -> Duration;
    /// Whether the condition holds now.
    ///
    /// # Errors
    /// It will never hold: the phase has failed.
    fn holds(&mut self, condition: Condition) -> Outcome<bool>;
    /// How many bytes wait to be written to any disk.
    fn unwritten(&self) -> u64;
    /// Reports how the wait for a disk goes.
    fn report(&mut self, text: String);
    /// Takes note of the failure of a phase after which the sequence goes on.
    fn note(&mut self, name: &'static str, failure: Failure);
}

/// The node on which a sequence carries out its steps.
pub trait Machine<Step>: Surroundings {
    /// Does what the phase is for, or starts it.
    fn start(&mut self, step: Step) -> Outcome;
    /// Takes note that a phase has ended.
    fn ended(&mut self, phase: &'static Phase<Step>);
}

/// How far a table of phases has come.
pub struct Sequence<Step: 'static> {
    phases: &'static [Phase<Step>],
    /// The index of the phase that is running or comes next.
    at: usize,
    /// When the phase was started, since boot, if it was.
    started: Option<Duration>,
    disk_wait: Option<DiskWait>,
}

/// The result of [`Sequence::advance`].
pub enum Progress<Step: 'static> {
    /// A phase is under way.
    Waits,
    /// Every phase has ended, or ends later.
    Finished,
    /// A phase failed without which the node cannot go on.
    Failed(&'static Phase<Step>, Failure),
}

impl<Step: Copy> Sequence<Step> {
    /// A sequence in front of its first phase.
    pub const fn new(phases: &'static [Phase<Step>]) -> Self {
        Sequence { phases, at: 0, started: None, disk_wait: None }
    }

    /// Starts phases for as long as none has to be waited for.
    pub fn advance(&mut self, machine: &mut impl Machine<Step>) -> Progress<Step> {
        while let Some(phase) = self.phases.get(self.at) {
            match self.step(phase, machine) {
                Ok(true) => {}
                Ok(false) => return Progress::Waits,
                Err(failure) if phase.on_failure == OnFailure::Note => {
                    machine.note(phase.name, failure);
                }
                Err(failure) => return Progress::Failed(phase, failure),
            }
            self.at += 1;
            (self.started, self.disk_wait) = (None, None);
        }
        Progress::Finished
    }

    /// Starts the phase if it was not, and returns whether the next one may start.
    fn step(
        &mut self,
        phase: &'static Phase<Step>,
        machine: &mut impl Machine<Step>,
    ) -> Outcome<bool> {
        let since = match self.started {
            Some(since) => since,
            None => {
                let now = machine.now();
                self.started = Some(now);
                machine.start(phase.step)?;
                now
            }
        };
        let ends = match phase.ends {
            Ends::AtOnce => true,
            Ends::Later => return Ok(true),
            Ends::When(condition, _)
            | Ends::Within(condition, _)
            | Ends::WhileProgress(condition, ..) => machine.holds(condition)?,
        };
        if ends {
            machine.ended(phase);
            return Ok(true);
        }
        let waited = machine.now().saturating_sub(since);
        match phase.ends {
            Ends::When(_, timeout) if waited > timeout => {
                Err(Failure::new(format!("is not done after {} s", timeout.as_secs())))
            }
            Ends::Within(_, time) if waited > time => Ok(true),
            Ends::WhileProgress(_, stall, disk) => Ok(self.gives_up(machine, stall, disk)),
            _ => Ok(false),
        }
    }

    /// Whether a disk has made no progress for too long.
    fn gives_up(&mut self, machine: &mut impl Surroundings, stall: Duration, disk: &str) -> bool {
        let (now, left) = (machine.now(), machine.unwritten());
        let wait = self.disk_wait.get_or_insert_with(|| DiskWait::new(now, left, stall));
        match wait.next(now, left) {
            Next::Wait => false,
            Next::Report(progress) => {
                machine.report(format!("waits for {disk} {progress}"));
                false
            }
            Next::GiveUp(why) => {
                machine.report(format!("{disk} {why}"));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Condition::{Done, JobDone, Stopped, WorkFinished};
    use OnFailure::{CountAndReboot, Note, Reboot};

    const TIMEOUT: Duration = Duration::from_secs(120);

    /// A machine on which some steps fail and some conditions hold.
    #[derive(Default)]
    struct Fake {
        now: Duration,
        failing: Vec<&'static str>,
        holding: Vec<Condition>,
        broken: Vec<Condition>,
        log: Vec<String>,
    }

    impl Surroundings for Fake {
        fn now(&self) -> Duration {
            self.now
        }

        fn holds(&mut self, condition: Condition) -> Outcome<bool> {
            if self.broken.contains(&condition) {
                return Err(Failure::new("broken"));
            }
            Ok(self.holding.contains(&condition))
        }

        fn unwritten(&self) -> u64 {
            1 << 20
        }

        fn report(&mut self, text: String) {
            self.log.push(text);
        }

        fn note(&mut self, name: &'static str, failure: Failure) {
            self.log.push(format!("{name}: {failure}"));
        }
    }

    impl Machine<&'static str> for Fake {
        fn start(&mut self, step: &'static str) -> Outcome {
            self.log.push(format!("start {step}"));
            if self.failing.contains(&step) { Err(Failure::new("broken")) } else { Ok(()) }
        }

        fn ended(&mut self, phase: &'static Phase<&'static str>) {
            self.log.push(format!("end {}", phase.name));
        }
    }

    const fn phase(name: &'static str, ends: Ends, on_failure: OnFailure) -> Phase<&'static str> {
        Phase { name, step: name, ends, on_failure }
    }

    #[test]
    fn a_phase_that_ends_later_does_not_hold_up_the_next_one() {
        static TABLE: [Phase<&str>; 3] = [
            phase("a", Ends::AtOnce, Reboot),
            phase("b", Ends::Later, Note),
            phase("c", Ends::AtOnce, Note),
        ];
        let (mut sequence, mut fake) = (Sequence::new(&TABLE), Fake::default());
        assert!(matches!(sequence.advance(&mut fake), Progress::Finished));
        assert_eq!(fake.log, ["start a", "end a", "start b", "start c", "end c"]);
    }

    #[test]
    fn a_phase_with_a_condition_is_started_once_and_waited_for() {
        static TABLE: [Phase<&str>; 2] = [
            phase("a", Ends::When(Done(Program::Images), TIMEOUT), CountAndReboot),
            phase("b", Ends::AtOnce, Note),
        ];
        let (mut sequence, mut fake) = (Sequence::new(&TABLE), Fake::default());
        for _ in 0..3 {
            assert!(matches!(sequence.advance(&mut fake), Progress::Waits));
        }
        fake.holding.push(Done(Program::Images));
        assert!(matches!(sequence.advance(&mut fake), Progress::Finished));
        assert_eq!(fake.log, ["start a", "end a", "start b", "end b"]);
    }

    #[test]
    fn a_failure_is_reported_or_ends_the_sequence_as_in_the_table() {
        static TABLE: [Phase<&str>; 3] = [
            phase("a", Ends::AtOnce, Note),
            phase("b", Ends::AtOnce, CountAndReboot),
            phase("c", Ends::AtOnce, Note),
        ];
        let mut fake = Fake { failing: vec!["a", "b"], ..Fake::default() };
        let progress = Sequence::new(&TABLE).advance(&mut fake);
        assert!(matches!(progress, Progress::Failed(phase, _) if phase.name == "b"));
        assert_eq!(fake.log, ["start a", "a: broken", "start b"]);
    }

    #[test]
    fn a_phase_whose_job_fails_has_failed() {
        static TABLE: [Phase<&str>; 2] = [
            phase("a", Ends::When(JobDone, TIMEOUT), Note),
            phase("b", Ends::When(JobDone, TIMEOUT), Reboot),
        ];
        let (mut sequence, mut fake) = (Sequence::new(&TABLE), Fake::default());
        assert!(matches!(sequence.advance(&mut fake), Progress::Waits));
        fake.broken.push(JobDone);
        assert!(
            matches!(sequence.advance(&mut fake), Progress::Failed(phase, _) if phase.name == "b")
        );
        assert_eq!(fake.log, ["start a", "a: broken", "start b"]);
    }

    #[test]
    fn a_condition_that_does_not_hold_in_time_is_a_failure() {
        static TABLE: [Phase<&str>; 1] =
            [phase("a", Ends::When(Done(Program::Images), TIMEOUT), Reboot)];
        let (mut sequence, mut fake) = (Sequence::new(&TABLE), Fake::default());
        assert!(matches!(sequence.advance(&mut fake), Progress::Waits));
        fake.now = TIMEOUT + Duration::from_secs(1);
        let Progress::Failed(_, failure) = sequence.advance(&mut fake) else { panic!("it waits") };
        assert_eq!(failure.to_string(), "is not done after 120 s");
    }

    #[test]
    fn a_phase_with_a_time_of_its_own_ends_without_its_condition() {
        static TABLE: [Phase<&str>; 2] = [
            phase("a", Ends::Within(Stopped(Program::Kubelet), TIMEOUT), Note),
            phase("b", Ends::AtOnce, Note),
        ];
        let (mut sequence, mut fake) = (Sequence::new(&TABLE), Fake::default());
        assert!(matches!(sequence.advance(&mut fake), Progress::Waits));
        fake.now = TIMEOUT + Duration::from_secs(1);
        assert!(matches!(sequence.advance(&mut fake), Progress::Finished));
        assert_eq!(fake.log, ["start a", "start b", "end b"]);
    }

    #[test]
    fn a_disk_without_progress_is_reported_and_given_up() {
        static TABLE: [Phase<&str>; 1] =
            [phase("a", Ends::WhileProgress(WorkFinished, TIMEOUT, "DATA"), Note)];
        let (mut sequence, mut fake) = (Sequence::new(&TABLE), Fake::default());
        assert!(matches!(sequence.advance(&mut fake), Progress::Waits));
        fake.now = Duration::from_secs(10);
        assert!(matches!(sequence.advance(&mut fake), Progress::Waits));
        fake.now = TIMEOUT + Duration::from_secs(1);
        assert!(matches!(sequence.advance(&mut fake), Progress::Finished));
        assert_eq!(
            fake.log[1..],
            [
                "waits for DATA since 10 s, 1024 KiB are left to write",
                "DATA has taken nothing for 120 s: 1024 KiB are lost",
            ]
        );
    }
}
