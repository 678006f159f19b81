//! The channels of releases.

use std::fmt;
use std::str::FromStr;

/// A channel that a node follows. `candidate` has a release before `stable` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Releases for all nodes.
    Stable,
    /// Releases that may become stable.
    Candidate,
}

impl Channel {
    /// All channels.
    pub const ALL: [Channel; 2] = [Channel::Stable, Channel::Candidate];

    /// Its name in recipes and targets.
    pub fn name(self) -> &'static str {
        match self {
            Channel::Stable => "stable",
            Channel::Candidate => "candidate",
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a word that is not the name of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChannel(pub String);

impl fmt::Display for UnknownChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a channel: use `stable` or `candidate`", self.0)
    }
}

impl std::error::Error for UnknownChannel {}

impl FromStr for Channel {
    type Err = UnknownChannel;

    fn from_str(text: &str) -> Result<Self, UnknownChannel> {
        let found = Channel::ALL.into_iter().find(|channel| channel.name() == text);
        found.ok_or_else(|| UnknownChannel(text.to_owned()))
    }
}
