//! Rules for packets to the node itself. The network pod sets them in the kernel.

mod conflicts;
mod link_pattern;
mod order;
mod ports;
mod protocol;

pub use conflicts::{firewall_conflict, rule_that_closes};
pub use link_pattern::LinkPattern;
pub use order::{RuleOrder, RulePriority};
pub use ports::PortRange;
pub use protocol::RuleProtocol;

use std::fmt;

use super::Subnet;
use super::options::Options;
use crate::Refusal;

/// The maximum bytes of a rule's name.
const MAX_NAME: usize = 63;
/// The maximum number of ranges of ports, of sources and of links of a rule.
const MAX_ENTRIES: usize = 32;

/// A rule that accepts or drops packets to the node which match each of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewallRule {
    name: RuleName,
    action: RuleAction,
    priority: RulePriority,
    protocol: Option<RuleProtocol>,
    ports: Vec<PortRange>,
    sources: Vec<Subnet>,
    links: Vec<LinkPattern>,
}

/// The name of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName(String);

/// The action of a rule on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleAction {
    /// The packet is dropped, without an answer.
    Drop,
    /// The packet gets to the node.
    Accept,
}

/// The words of a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleOptions<'a> {
    /// The name.
    pub name: &'a str,
    /// `accept` or `drop`.
    pub action: &'a str,
    /// Its place among the others; 0 for that of rules without one.
    pub priority: u32,
    /// The protocol; empty for all.
    pub protocol: &'a str,
    /// The ports of the node; none for all.
    pub ports: &'a [String],
    /// The networks that packets come from; none for all.
    pub sources: &'a [String],
    /// The links that they come in through; none for all.
    pub links: &'a [String],
}

impl FirewallRule {
    /// Reads the words of a rule. Its lists are in ascending order then, without what is there
    /// twice.
    ///
    /// # Errors
    /// A word is malformed, or no packet can match.
    pub fn new(options: RuleOptions) -> Result<Self, Refusal> {
        let protocol = Some(options.protocol).filter(|word| !word.is_empty());
        let rule = Self {
            name: RuleName::parse(options.name)?,
            action: RuleAction::parse(options.action)?,
            priority: RulePriority::new(options.priority)?,
            protocol: protocol.map(RuleProtocol::parse).transpose()?,
            ports: entries(options.ports, "ranges of ports", PortRange::parse)?,
            sources: entries(options.sources, "sources", Subnet::parse_source)?,
            links: entries(options.links, "links", LinkPattern::parse)?,
        };
        rule.check().map(|()| rule)
    }

    fn check(&self) -> Result<(), Refusal> {
        let refuse = |reason: String| Err(Refusal::malformed(reason));
        if !self.ports.is_empty() && !self.protocol.is_some_and(RuleProtocol::has_ports) {
            return refuse(format!("ports need a protocol: {}", RuleProtocol::WITH_PORTS));
        }
        if let Some(protocol) = self.protocol
            && let Some(source) = self.sources.iter().find(|one| !protocol.is_of(one.address()))
        {
            return refuse(format!("no packet of `{protocol}` comes from `{source}`"));
        }
        if self.is_of_the_rest() && self.priority != RulePriority::default() {
            let name = &self.name;
            let reason = "is about all other packets, so it comes last and has no priority";
            return refuse(format!("`{name}` {reason}"));
        }
        Ok(())
    }

    /// Reads the words after the name that [`Self::words`] writes.
    pub(super) fn parse_words(name: &RuleName, words: &str) -> Result<Self, Refusal> {
        let (action, options) = words.split_once(' ').unwrap_or((words, ""));
        let mut options = Options::parse("a firewall rule", options)?;
        let mut list = |option: &str| -> Vec<String> {
            let value = options.take(option).into_iter();
            value.flat_map(|value| value.split(',')).map(str::to_owned).collect()
        };
        let (ports, sources, links) = (list("ports"), list("sources"), list("links"));
        let protocol = options.take("protocol").unwrap_or_default();
        let priority = options.take("priority").map(RulePriority::parse).transpose()?;
        options.end()?;
        Self::new(RuleOptions {
            name: name.as_str(),
            action,
            priority: priority.map_or(0, RulePriority::number),
            protocol,
            ports: &ports,
            sources: &sources,
            links: &links,
        })
    }

    /// The action and the options as words with one space between.
    pub(super) fn words(&self) -> String {
        let mut words = self.action.to_string();
        if self.priority != RulePriority::default() {
            words += &format!(" priority={}", self.priority.number());
        }
        if let Some(protocol) = self.protocol {
            words += &format!(" protocol={protocol}");
        }
        for (name, list) in [
            ("ports", texts(&self.ports)),
            ("sources", texts(&self.sources)),
            ("links", texts(&self.links)),
        ] {
            if !list.is_empty() {
                words += &format!(" {name}={}", list.join(","));
            }
        }
        words
    }

    /// Its name.
    pub fn name(&self) -> &RuleName {
        &self.name
    }

    /// The action on a packet that matches.
    pub fn action(&self) -> RuleAction {
        self.action
    }

    /// Its place among the others.
    pub fn priority(&self) -> RulePriority {
        self.priority
    }

    /// The protocol; none for all.
    pub fn protocol(&self) -> Option<RuleProtocol> {
        self.protocol
    }

    /// The ports of the node; none for all.
    pub fn ports(&self) -> &[PortRange] {
        &self.ports
    }

    /// The networks that packets come from; none for all.
    pub fn sources(&self) -> &[Subnet] {
        &self.sources
    }

    /// The links that they come in through; none for all.
    pub fn links(&self) -> &[LinkPattern] {
        &self.links
    }

    /// Whether it is about all packets that no other rule is about.
    pub fn is_of_the_rest(&self) -> bool {
        self.protocol.is_none() && self.sources.is_empty() && self.links.is_empty()
    }
}

/// Reads the entries of a list.
pub(super) fn entries<T: Ord>(
    words: &[String],
    plural: &str,
    parse: fn(&str) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let mut entries = words.iter().map(|word| parse(word)).collect::<Result<Vec<T>, Refusal>>()?;
    entries.sort();
    entries.dedup();
    match entries.len() {
        0..=MAX_ENTRIES => Ok(entries),
        _ => Err(Refusal::malformed(format!("a rule has at most {MAX_ENTRIES} {plural}"))),
    }
}

pub(super) fn texts<T: fmt::Display>(entries: &[T]) -> Vec<String> {
    entries.iter().map(T::to_string).collect()
}

impl RuleName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not 1 to 63 lower-case letters, digits, dots and dashes, the first of them a letter or
    /// a digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().next().is_some_and(is_inside)
            && text.bytes().all(|byte| is_inside(byte) || b".-".contains(&byte));
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let letters = "lower-case letters, digits, `.` and `-`";
                let reason = format!("`{start}` is not the name of a rule: {letters}");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RuleAction {
    const ALL: [Self; 2] = [Self::Drop, Self::Accept];

    /// Reads a word.
    ///
    /// # Errors
    /// It is no action.
    fn parse(word: &str) -> Result<Self, Refusal> {
        let found = Self::ALL.into_iter().find(|action| action.word() == word);
        found.ok_or_else(|| {
            Refusal::malformed("the `action` of a firewall rule is `accept` or `drop`")
        })
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Accept => "accept",
        }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RuleAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests;
