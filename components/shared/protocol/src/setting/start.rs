//! The settings with which the node has started.

/// The settings with which the node has started, of those that requests have set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartSettings {
    /// The newest ones.
    #[default]
    Newest,
    /// Earlier ones, as starts with the newest have failed. The node is not ready yet, and refuses
    /// changes until it is.
    Earlier,
    /// The node was ready with earlier ones, and has gone back to them. Changes are refused until
    /// the client reverts, as it may not know.
    GoneBack,
}

/// The states with their words.
const WORDS: [(StartSettings, &str); 3] = [
    (StartSettings::Newest, "newest"),
    (StartSettings::Earlier, "earlier"),
    (StartSettings::GoneBack, "gone-back"),
];

impl StartSettings {
    /// The value of its line.
    pub(crate) fn word(self) -> &'static str {
        WORDS.iter().find(|(one, _)| *one == self).map_or("", |(_, word)| word)
    }

    /// Reads the value of its line.
    pub(crate) fn decode(value: &str) -> Result<Self, String> {
        let found = WORDS.iter().find(|(_, word)| *word == value);
        found.map(|(one, _)| *one).ok_or_else(|| format!("`{value}` is no state of a start"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in [StartSettings::Newest, StartSettings::Earlier, StartSettings::GoneBack] {
            assert_eq!(StartSettings::decode(state.word()), Ok(state));
        }
        assert!(StartSettings::decode("oldest").is_err());
    }
}
