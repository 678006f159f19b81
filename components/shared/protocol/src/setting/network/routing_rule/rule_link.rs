//! The links that routing rules name.

use std::fmt;

use super::super::LinkName;
use crate::Refusal;

/// The link through which the node's own packets come, for rules.
const LOOPBACK: &str = "lo";

/// A link through which packets come or leave, or the loopback for those of the node itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLink(String);

impl RuleLink {
    /// Reads the name of a link, which need not exist.
    ///
    /// # Errors
    /// It is not the name of a link.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        match word {
            LOOPBACK => Ok(Self(word.to_owned())),
            _ => LinkName::parse(word).map(|name| Self(name.to_string())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
