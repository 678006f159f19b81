//! A second press of the power button, or a second signal, hurries the shutdown: it does not wait
//! for pods any longer. It is pure.

use std::time::Duration;

/// A press so soon after the first one is a bounce of the button, or a key that is held.
const BOUNCE: Duration = Duration::from_secs(2);

/// Whether the shutdown hurries.
#[derive(Debug, Default)]
pub struct Hurry {
    /// When the end of the node was requested first, since boot.
    requested: Option<Duration>,
    is_on: bool,
}

impl Hurry {
    /// The end of the node is requested, for the first time or again.
    pub fn on_end(&mut self, now: Duration) {
        self.requested.get_or_insert(now);
    }

    /// A person asks for the end. Returns whether the shutdown hurries from now on.
    pub fn on_person(&mut self, now: Duration) -> bool {
        let is_second = self.requested.is_some_and(|first| now.saturating_sub(first) >= BOUNCE);
        is_second && !std::mem::replace(&mut self.is_on, is_second)
    }

    /// Whether it does.
    pub fn is_on(&self) -> bool {
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_of_a_person_hurries_once() {
        let mut hurry = Hurry::default();
        let second = Duration::from_secs;
        assert!(!hurry.on_person(second(10)) && !hurry.is_on(), "no end is requested yet");
        hurry.on_end(second(10));
        hurry.on_end(second(11));
        assert!(!hurry.on_person(second(11)) && !hurry.is_on(), "it is a bounce");
        assert!(hurry.on_person(second(12)) && hurry.is_on());
        assert!(!hurry.on_person(second(13)) && hurry.is_on());
    }
}
