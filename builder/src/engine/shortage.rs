//! Signs of a shortage in what a failed step printed: the machine lacked memory or disk, so the
//! failure says nothing about the step.

/// Phrases that tools print after a process of theirs was killed: gcc, then rustc and cargo, go,
/// make, ld and the shell.
const KILLED: [&str; 6] = [
    "Killed signal terminated program",
    "(signal: 9, SIGKILL",
    "signal: killed",
    "] Killed",
    "terminated with signal 9",
    "Killed",
];

/// The C library's message for a full disk.
const FULL: &str = "No space left on device";

/// A resource that a machine lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Most likely: a process was killed.
    Memory,
    /// A disk is full.
    Disk,
}

impl Shortage {
    /// The shortage that the output of a failed step shows; `prints` is whether it has a phrase.
    pub fn of(prints: impl Fn(&str) -> bool) -> Option<Self> {
        let memory = || KILLED.iter().any(|phrase| prints(phrase)).then_some(Shortage::Memory);
        if prints(FULL) { Some(Shortage::Disk) } else { memory() }
    }
}
