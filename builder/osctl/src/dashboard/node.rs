//! The state of a node, as last read from its services.

use super::facts::Facts;
use super::history::History;
use super::log::Log;
use super::network::Network;
use super::reading::{Answer, Reading};
use super::untrusted::clean;
use crate::rates::{Rates, Sample};
use crate::resource;
use jiff::{SignedDuration, Timestamp};
use osbuild_cosi::v1::{GetTryResponse, GetUsageResponse};
use serde_json::Value;

/// A part of the state: the last answer, and why there is no newer one.
#[derive(Debug)]
pub struct Part<T> {
    /// The last answer, if there was any.
    pub value: Option<T>,
    /// Why the last call failed, if it did.
    pub error: Option<String>,
}

impl<T> Default for Part<T> {
    fn default() -> Part<T> {
        Part { value: None, error: None }
    }
}

impl<T> Part<T> {
    fn take(&mut self, answer: Answer<T>) {
        match answer {
            Ok(value) => (self.value, self.error) = (Some(value), None),
            Err(error) => self.error = Some(clean(&error)),
        }
    }
}

/// Whether the node is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It was not connected yet, since the dashboard was started.
    Opening,
    /// It is.
    Open,
    /// It is not.
    Lost {
        /// When it answered last, or was tried for the first time.
        since: Timestamp,
        /// In one line why.
        why: String,
    },
}

/// A running try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The caller that began the try.
    pub caller: String,
    /// When it is taken back.
    pub end: Timestamp,
}

/// The use of the processors, the memory, the disk and the links.
#[derive(Debug)]
pub struct Usage {
    /// The counters.
    pub usage: GetUsageResponse,
    /// The use since the counters before. None after the first ones.
    pub rates: Option<Rates>,
}

/// The shares that have a history, each in percent.
#[derive(Debug, Default)]
pub struct Histories {
    /// The processors that were busy.
    pub processor: History,
    /// The memory that is in use.
    pub memory: History,
    /// The part of DATA that is in use.
    pub data: History,
    /// The time in which something waited for a processor.
    pub wait_for_processor: History,
    /// The time in which something waited for memory.
    pub wait_for_memory: History,
    /// The time in which something waited for a disk.
    pub wait_for_disk: History,
}

/// A node of the dashboard.
#[derive(Debug)]
pub struct Node {
    /// The user's name for it.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// Whether it is connected.
    pub connection: Connection,
    /// The state that it reports about itself.
    pub facts: Part<Facts>,
    /// Its use of resources.
    pub usage: Part<Usage>,
    /// Its use of resources over time.
    pub histories: Histories,
    /// The try.
    pub tried: Part<Option<Try>>,
    /// Its network.
    pub network: Part<Network>,
    /// Its logs.
    pub log: Log,
    /// The spec of its `KernelInfos.osbuild`.
    kernel: Option<Value>,
    /// When it answered last.
    answered: Option<Timestamp>,
    /// The counters that were read last.
    before: Option<Sample>,
}

impl Node {
    /// A node that is not connected yet.
    pub fn new(name: &str, address: &str) -> Node {
        Node {
            name: clean(name),
            address: clean(address),
            connection: Connection::Opening,
            facts: Part::default(),
            usage: Part::default(),
            histories: Histories::default(),
            tried: Part::default(),
            network: Part::default(),
            log: Log::default(),
            kernel: None,
            answered: None,
            before: None,
        }
    }

    /// Takes a reading that was made at `now`.
    pub fn take(&mut self, reading: Reading, now: Timestamp) {
        if reading.is_answer() {
            self.answered = Some(now);
        }
        match reading {
            Reading::Connected => self.connection = Connection::Open,
            Reading::Lost(why) => {
                let since = match &self.connection {
                    Connection::Lost { since, .. } => *since,
                    _ => self.answered.unwrap_or(now),
                };
                self.connection = Connection::Lost { since, why: clean(&why) };
            }
            Reading::Status(answer) => {
                let kernel = self.kernel.as_ref();
                self.facts.take(answer.map(|status| Facts::of(&status, kernel, now)));
            }
            Reading::Usage(Ok(sample)) => self.take_sample(sample),
            Reading::Usage(Err(error)) => self.usage.take(Err(error)),
            Reading::Try(answer) => self.tried.take(answer.map(|one| running(&one, now))),
            Reading::Observed(answer) => {
                if let Ok(resources) = &answer {
                    self.kernel = resources.kernels.first().map(resource::spec);
                }
                self.network.take(answer.map(|resources| Network::of(&resources)));
            }
            Reading::LogBegins(log) => self.log.begin(&log),
            Reading::Lines(lines) => self.log.extend(lines),
        }
    }

    fn take_sample(&mut self, sample: Sample) {
        // Counters of a boot before would make rates of nothing.
        let before = self
            .before
            .as_ref()
            .filter(|before| before.usage.read_milliseconds < sample.usage.read_milliseconds);
        let rates = before.map(|before| Rates::between(before, &sample));
        let (usage, histories) = (&sample.usage, &mut self.histories);
        if let Some(rates) = &rates {
            histories.processor.push(rates.processor_percent);
        }
        histories.memory.push(percent_used(usage.memory_bytes, usage.available_memory_bytes));
        if let Some(data) = &usage.data {
            histories.data.push(percent_used(data.bytes, data.free_bytes));
        }
        for pressure in &usage.pressures {
            let history = match pressure.resource.as_str() {
                "processor" => &mut histories.wait_for_processor,
                "memory" => &mut histories.wait_for_memory,
                "disk" => &mut histories.wait_for_disk,
                _ => continue,
            };
            history.push(pressure.percent_10_seconds);
        }
        self.usage.take(Ok(Usage { usage: usage.clone(), rates }));
        self.before = Some(sample);
    }
}

/// How much is used, in percent.
pub fn percent_used(all: u64, free: u64) -> f64 {
    100.0 * all.saturating_sub(free) as f64 / all.max(1) as f64
}

fn running(state: &GetTryResponse, now: Timestamp) -> Option<Try> {
    let remaining = SignedDuration::from_secs(i64::from(state.remaining_seconds));
    state.running.then(|| Try {
        caller: clean(&state.caller),
        end: now.checked_add(remaining).unwrap_or(now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::sample;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_connection_is_lost_since_the_last_answer() {
        let mut node = Node::new("a", "a:50000");
        node.take(Reading::Lost("refused".into()), at(5));
        let lost = Connection::Lost { since: at(5), why: "refused".into() };
        assert_eq!(node.connection, lost, "it has never answered");
        node.take(Reading::Connected, at(6));
        node.take(Reading::Try(Ok(GetTryResponse::default())), at(8));
        node.take(Reading::Try(Err("no answer".into())), at(9));
        for (seconds, why) in [(10, "reset"), (15, "refused")] {
            node.take(Reading::Lost(why.into()), at(seconds));
        }
        let lost = Connection::Lost { since: at(8), why: "refused".into() };
        assert_eq!(node.connection, lost);
        node.take(Reading::Connected, at(20));
        assert_eq!(node.connection, Connection::Open);
    }

    #[test]
    fn a_failed_call_keeps_the_last_answer() {
        let mut node = Node::new("a", "a:50000");
        node.take(Reading::Usage(Ok(sample(10, 1000, [0, 0, 0]))), at(0));
        node.take(Reading::Usage(Err("no `inspect`".into())), at(2));
        assert!(node.usage.value.is_some());
        assert_eq!(node.usage.error.as_deref(), Some("no `inspect`"));
        node.take(Reading::Usage(Ok(sample(12, 2000, [0, 0, 0]))), at(4));
        assert_eq!(node.usage.error, None);
        let rates = node.usage.value.unwrap().rates.unwrap();
        assert_eq!(rates.processor_percent, 25.0);
    }

    #[test]
    fn a_reboot_is_no_rate() {
        let mut node = Node::new("a", "a:50000");
        node.take(Reading::Usage(Ok(sample(900, 1000, [0, 0, 0]))), at(0));
        node.take(Reading::Usage(Ok(sample(10, 10, [0, 0, 0]))), at(60));
        assert_eq!(node.usage.value.unwrap().rates, None);
    }

    #[test]
    fn a_try_ends_at_a_time() {
        let mut node = Node::new("a", "a:50000");
        let caller = "admin \u{1b}".into();
        let state = GetTryResponse { running: true, remaining_seconds: 30, caller, number: 1 };
        node.take(Reading::Try(Ok(state)), at(100));
        let tried = Try { caller: "admin \\u{1b}".into(), end: at(130) };
        assert_eq!(node.tried.value, Some(Some(tried)));
    }
}
