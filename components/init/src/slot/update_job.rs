//! A part of an update, or the way back, for which a client waits. Hashing a slot and writing
//! the system partition take seconds and read untrusted bytes, so a child does it.

use std::os::fd::OwnedFd;
use std::path::Path;

use osbuild_failure::{Failure, Outcome};
use osbuild_protocol::{Refusal, RefusalCode};

use crate::processes::process::Launch;
use crate::processes::program::Program;
use crate::sockets::ClientId;

/// The kind of work that the child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Verifies the other slot, which is booted next if it holds what its header says.
    Try,
    /// Verifies the other slot, into which the node reboots then.
    RollBack,
    /// Replaces slotboot.
    BootProgram,
}

impl Work {
    /// The child.
    pub fn program(self) -> Program {
        match self {
            Self::Try | Self::RollBack => Program::TrySlot,
            Self::BootProgram => Program::ReplaceSlotboot,
        }
    }

    /// How the child is started for the partition `device`. It reads `input`.
    ///
    /// # Errors
    /// The child requires an input, and there is none.
    pub fn launch(self, device: &Path, input: Option<OwnedFd>) -> Result<Launch, Refusal> {
        if self == Self::BootProgram && input.is_none() {
            let reason = "no file in memory came with the line";
            return Err(Refusal::new(RefusalCode::NoDescriptor, reason));
        }
        let mut launch = Launch::child(self.program(), &[]);
        launch.words.push(device.display().to_string());
        Ok(Launch { input, ..launch })
    }
}

/// A job under way, from its request to its reply. There is one at a time.
#[derive(Debug)]
pub struct UpdateJob {
    /// The kind of work that its child does.
    pub work: Work,
    /// The client that waits.
    pub client: ClientId,
    /// The input of its child, until the child is started.
    pub input: Option<OwnedFd>,
}

/// Refuses a job while another one is under way.
pub fn check_free(job: Option<&UpdateJob>) -> Result<(), Refusal> {
    match job {
        Some(job) => {
            let reason = format!("`{}` is under way", job.work.program().name());
            Err(Refusal::new(RefusalCode::Busy, reason))
        }
        None => Ok(()),
    }
}

/// The outcome of a child, whose first line says what is wrong.
pub fn outcome(succeeded: bool, report: &str) -> Outcome {
    if succeeded {
        return Ok(());
    }
    let why = report.lines().next().filter(|line| !line.is_empty());
    Err(Failure::new(why.unwrap_or("it was ended before it was done")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slotboot_is_replaced_only_with_a_file_that_came_with_the_line() {
        let launch = |work: Work| work.launch(Path::new("/dev/vda1"), None);
        assert_eq!(launch(Work::BootProgram).err().unwrap().code, RefusalCode::NoDescriptor);
        assert!(launch(Work::Try).is_ok());
    }

    #[test]
    fn the_first_line_of_a_failed_child_is_the_reason() {
        let why = |report| outcome(false, report).unwrap_err().to_string();
        assert_eq!(why("open /dev/vda3 alone: busy\nmore\n"), "open /dev/vda3 alone: busy");
        assert_eq!(why(""), "it was ended before it was done");
        assert_eq!(outcome(true, "ignored\n"), Ok(()));
    }

    #[test]
    fn a_second_job_is_refused_by_the_name_of_the_first() {
        let job = UpdateJob { work: Work::Try, client: ClientId::default(), input: None };
        assert_eq!(check_free(None), Ok(()));
        let refusal = check_free(Some(&job)).unwrap_err();
        assert_eq!(refusal, Refusal::new(RefusalCode::Busy, "`try-slot` is under way"));
    }
}
