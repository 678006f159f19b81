//! The state of a static pod.

use super::{PodName, PodText};
use crate::fields::{number, value};

/// The maximum characters of a message.
const MAX_MESSAGE: usize = 256;
/// The maximum bytes of a reason.
const MAX_REASON: usize = 64;

/// The state of a static pod, as containerd and the kubelet have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodState {
    /// The pod.
    pub name: PodName,
    /// Whether all its containers run.
    pub running: bool,
    /// How often its containers have started again, in all.
    pub restarts: u32,
    /// Why it does not run, as a word of the kubelet or of containerd; empty if it does.
    pub reason: String,
    /// The same as a sentence; empty if there is none.
    pub message: String,
}

impl PodState {
    /// The state with a reason and a message that are short enough.
    pub fn new(name: PodName, running: bool, restarts: u32, reason: &str, message: &str) -> Self {
        let is_known = |letter: &char| letter.is_ascii_alphanumeric();
        let reason = reason.chars().filter(is_known).take(MAX_REASON).collect();
        let message = message.chars().filter(|letter| !letter.is_control()).take(MAX_MESSAGE);
        Self { name, running, restarts, reason, message: message.collect() }
    }

    /// The line for it.
    pub fn encode(&self) -> String {
        let Self { name, running, restarts, reason, message } = self;
        let message = PodText::new(message).map(|text| text.escaped()).unwrap_or_default();
        let running = u8::from(*running);
        format!("{name} running={running} restarts={restarts} reason={reason} message={message}")
    }

    /// Reads the line; `None` if it has another form.
    pub fn decode(line: &str) -> Option<Self> {
        let (name, fields) = line.split_once(' ')?;
        let message = PodText::unescape(value(fields, "message")?).ok()?;
        let running = match value(fields, "running")? {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let (restarts, reason) = (number(fields, "restarts")?, value(fields, "reason")?);
        let name = PodName::parse(name).ok()?;
        Some(Self::new(name, running, restarts, reason, message.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let name = PodName::parse("web").unwrap();
        let state = PodState::new(name.clone(), false, 3, "ErrImagePull", "pull \"a\":\n100 %");
        assert_eq!(
            state.encode(),
            "web running=0 restarts=3 reason=ErrImagePull message=pull%20\"a\":100%20%25"
        );
        assert_eq!(PodState::decode(&state.encode()), Some(state));
        let long = PodState::new(name, true, 0, &"a".repeat(999), &"\u{e4}".repeat(999));
        assert_eq!((long.reason.len(), long.message.chars().count()), (64, 256));
        assert_eq!(PodState::decode(&long.encode()), Some(long));
        for line in ["", "web", "web running=1", "web running=2 restarts=0 reason= message="] {
            assert_eq!(PodState::decode(line), None, "{line}");
        }
    }
}
