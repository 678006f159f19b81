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

/// The C library's messages for a full disk, and for a user's full part of one.
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

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
        let disk = || FULL.iter().any(|phrase| prints(phrase)).then_some(Shortage::Disk);
        disk().or_else(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_quota_is_a_shortage_of_disk() {
        let of = |log: &str| Shortage::of(|phrase| log.contains(phrase));
        assert_eq!(of("write error: Disk quota exceeded"), Some(Shortage::Disk));
        assert_eq!(of("No space left on device, Killed"), Some(Shortage::Disk));
        assert_eq!(of("Killed"), Some(Shortage::Memory));
        assert_eq!(of("exit status 1"), None);
    }
}
