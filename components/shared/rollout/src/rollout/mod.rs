//! The rollout of a release, as its publisher writes and signs it.

use std::fmt::{self, Display, Formatter};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Portion, Waves, Window, is_any_open, place};

/// The schedule that a publisher writes: which nodes get a release, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Schedule {
    /// When it begins, if the publisher decides that.
    pub begins: Option<Timestamp>,
    /// Its waves.
    pub waves: Waves,
    /// When nodes may begin; at any time if there are none.
    pub windows: Vec<Window>,
}

/// The rollout of a release, which nodes obey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rollout {
    begins: Timestamp,
    order: String,
    #[serde(default, skip_serializing_if = "has_none")]
    waves: Waves,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<Window>,
    #[serde(default, skip_serializing_if = "is_false")]
    stopped: bool,
}

fn has_none(waves: &Waves) -> bool {
    waves.list().is_empty()
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why a node has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The publisher has stopped the release.
    Stopped,
    /// No wave reaches the node: the waves reach only this part of all nodes.
    Unreached(Portion),
    /// The node's time in its wave is still to come.
    Wave(Timestamp),
    /// No maintenance window is open until then.
    Window(Timestamp),
}

impl Display for Hold {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Hold::Stopped => f.write_str("was stopped by its publisher"),
            Hold::Unreached(portion) => write!(
                f,
                "waits for a wave of its publisher: it goes to {portion} of the nodes so far"
            ),
            Hold::Wave(at) => write!(f, "waits for its wave, which begins at {at}"),
            Hold::Window(at) => {
                write!(f, "waits for a maintenance window, which opens at {at}")
            }
        }
    }
}

impl Rollout {
    /// A rollout that begins at this time. `order` decides, with a machine's identity, which
    /// machines go first.
    pub fn new(schedule: Schedule, order: &str, begins: Timestamp) -> Self {
        let Schedule { waves, windows, .. } = schedule;
        Rollout { begins, order: order.to_owned(), waves, windows, stopped: false }
    }

    /// The same, stopped: no further node updates.
    pub fn stop(self) -> Self {
        Rollout { stopped: true, ..self }
    }

    /// When it begins.
    pub fn begins(&self) -> Timestamp {
        self.begins
    }

    /// The text that decides, with a machine's identity, the order of the machines.
    pub fn order(&self) -> &str {
        &self.order
    }

    /// Whether the publisher has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Why the machine with this identity may not begin to update now.
    pub fn hold(&self, machine: &str, now: Timestamp) -> Option<Hold> {
        if self.stopped {
            return Some(Hold::Stopped);
        }
        let place = place(&format!("{} {machine}", self.order));
        let Some(after) = self.waves.begin(place) else {
            return Some(Hold::Unreached(self.waves.reach()));
        };
        let (begins, second) = (self.begins.as_second() + after, now.as_second());
        if second < begins {
            return Some(Hold::Wave(at(begins)));
        }
        let opens = self.windows.iter().map(|window| window.next_opening(second)).min();
        opens.filter(|_| !is_any_open(&self.windows, second)).map(|opens| Hold::Window(at(opens)))
    }
}

impl Display for Rollout {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.stopped {
            return f.write_str("no further node: it is stopped");
        }
        let parts = self.waves.list().iter().map(|wave| {
            let begins = self.begins.as_second() + i64::from(wave.after_hours()) * 3600;
            format!("{} from {}", wave.nodes(), at(begins))
        });
        let mut parts: Vec<String> = parts.collect();
        if parts.is_empty() {
            parts.push(format!("{} from {}", Portion::ALL, self.begins));
        }
        write!(f, "nodes: {}", parts.join(", "))?;
        match self.windows.len() {
            0 => Ok(()),
            1 => f.write_str(", in a maintenance window"),
            _ => f.write_str(", in maintenance windows"),
        }
    }
}

/// The time of a second, or the last one that can be written.
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
