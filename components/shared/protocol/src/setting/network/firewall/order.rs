//! In which order rules are looked at.

use super::super::options::number;
use super::{FirewallRule, RuleAction, RuleName};
use crate::Refusal;

/// The priority of a rule that names none: in the middle of those that people write.
const DEFAULT: u16 = 1000;

/// The place of a rule among the others. That with the lowest number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RulePriority(u16);

/// The sort key of rules. A rule about all other packets comes last. Of rules with the same
/// priority, those that drop packets come first, so that the names decide nothing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleOrder<'a> {
    is_of_the_rest: bool,
    priority: RulePriority,
    action: RuleAction,
    name: &'a RuleName,
}

impl RulePriority {
    /// This number; 0 for that of rules without one.
    ///
    /// # Errors
    /// It is above 65535.
    pub fn new(number: u32) -> Result<Self, Refusal> {
        match (number, u16::try_from(number)) {
            (0, _) => Ok(Self::default()),
            (_, Ok(number)) => Ok(Self(number)),
            _ => Err(Refusal::malformed("the `priority` of a firewall rule is 1 to 65535")),
        }
    }

    /// Reads a number as everybody writes it.
    pub(super) fn parse(word: &str) -> Result<Self, Refusal> {
        let number = number::<u16>(word).filter(|number| *number != 0);
        let reason = || format!("`{word}` is not the priority of a firewall rule");
        number.map(Self).ok_or_else(|| Refusal::malformed(reason()))
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0.into()
    }
}

impl Default for RulePriority {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl FirewallRule {
    /// The sort key.
    pub fn order(&self) -> RuleOrder<'_> {
        RuleOrder {
            is_of_the_rest: self.is_of_the_rest(),
            priority: self.priority(),
            action: self.action(),
            name: self.name(),
        }
    }
}
