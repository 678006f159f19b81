//! The state of a volume on the node.

use std::fmt;

use crate::fields::{number, value};

/// The phase of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePhase {
    /// The machine does not have its disk.
    #[default]
    Waiting,
    /// Its disk is looked at, formatted, or mounted.
    Preparing,
    /// It is mounted.
    Mounted,
    /// Its disk has something else, or is used by something else.
    Refused,
    /// The disk has failed, or does not answer.
    Failed,
    /// It is to be unmounted, and something uses it.
    Leaving,
}

/// The state of a volume, as `init` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeState {
    /// Its phase.
    pub phase: VolumePhase,
    /// The device of its disk in the kernel, such as `vdb`; empty if it is unknown.
    pub device: String,
    /// The size of its file system in bytes; 0 if it is unknown.
    pub bytes: u64,
}

impl VolumePhase {
    const ALL: [Self; 6] =
        [Self::Waiting, Self::Preparing, Self::Mounted, Self::Refused, Self::Failed, Self::Leaving];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Preparing => "preparing",
            Self::Mounted => "mounted",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Leaving => "leaving",
        }
    }
}

impl VolumeState {
    /// Reads the words that its `Display` writes; `None` if they have another form.
    pub fn parse(words: &str) -> Option<Self> {
        let (word, fields) = words.split_once(' ').unwrap_or((words, ""));
        let phase = VolumePhase::ALL.into_iter().find(|phase| phase.word() == word)?;
        let device = value(fields, "device").unwrap_or_default().to_owned();
        Some(Self { phase, device, bytes: number(fields, "bytes").unwrap_or_default() })
    }
}

impl fmt::Display for VolumeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phase.word())?;
        match self.device.as_str() {
            "" => Ok(()),
            device => write!(f, " device={device} bytes={}", self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for phase in VolumePhase::ALL {
            for (device, bytes) in [("", 0), ("nvme1n1", 1 << 40)] {
                let state = VolumeState { phase, device: device.to_owned(), bytes };
                assert_eq!(VolumeState::parse(&state.to_string()), Some(state));
            }
        }
        for words in ["", "gone", "mounted=1"] {
            assert_eq!(VolumeState::parse(words), None, "{words}");
        }
    }
}
