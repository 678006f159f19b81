//! The progress of a node's boot, and the time of each part.

use super::console::{Choice, Event};
use crate::report::duration;
use serde_json::{Value, json};
use std::time::Duration;

/// The summary does not list phases that take less than this.
const SHORT: Duration = Duration::from_millis(100);

/// A boot, from power-on to READY.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boot {
    /// From power-on to the kernel's start, measured on the host: firmware and boot loader.
    pub firmware: Duration,
    /// The part of it that slotboot reported for itself.
    pub slotboot: Option<Choice>,
    /// The phases that `init` has completed, each with its time. The first includes the kernel's
    /// start.
    pub phases: Vec<(String, Duration)>,
    /// `ADDRESS/PREFIX-LENGTH on LINK`, as the node printed it.
    pub addresses: Vec<String>,
    /// From power-on to the first address, measured on the host. By then the first static pod
    /// works.
    pub addressed: Option<Duration>,
    /// From power-on to READY, measured on the host.
    pub ready: Option<Duration>,
    /// When the last phase ended, on the node's clock.
    last: Duration,
}

impl Boot {
    /// Records an event that the console reported `now` after power-on.
    pub fn note(&mut self, event: Event, now: Duration) {
        match event {
            Event::Phase { name, seconds } => {
                let end = Duration::try_from_secs_f64(seconds).unwrap_or(self.last);
                if end < self.last {
                    // The node's clock has restarted: this is another boot.
                    *self = Boot { slotboot: self.slotboot, ..Boot::default() };
                }
                if self.phases.is_empty() {
                    self.firmware = now.saturating_sub(end);
                }
                self.phases.push((name, end.saturating_sub(self.last)));
                self.last = end;
            }
            Event::Chosen(choice) => self.slotboot = Some(choice),
            Event::Address(address) => {
                self.addresses.push(address);
                self.addressed.get_or_insert(now);
            }
            Event::Ready => self.ready = Some(now),
            Event::Joined | Event::LowRam(_) | Event::Failed(_) => {}
        }
    }

    /// Describes the progress of an unfinished boot.
    pub fn progress(&self) -> String {
        match self.phases.last() {
            Some((name, _)) => format!("the last completed phase is `{name}`"),
            None => "`init` has not completed any phase yet".to_owned(),
        }
    }

    /// The boot as JSON, in seconds.
    pub fn json(&self) -> Value {
        let phase = |(name, time): &(String, Duration)| -> Value {
            json!({ "name": name, "seconds": time.as_secs_f64() })
        };
        json!({
            "firmware": self.firmware.as_secs_f64(),
            "slotboot": self.slotboot.map(|choice| json!({
                "own": choice.own.as_secs_f64(),
                "hash": choice.hash.as_secs_f64(),
                "load": choice.load.as_secs_f64(),
            })),
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
            "ready": self.ready.map(|time| time.as_secs_f64()),
            "addresses": self.addresses,
            "addressed": self.addressed.map(|time| time.as_secs_f64()),
        })
    }

    /// A one-line summary of a boot that is ready. Short phases are added up.
    pub fn summary(&self) -> String {
        let (long, short): (Vec<_>, Vec<_>) =
            self.phases.iter().partition(|(_, time)| *time >= SHORT);
        let rest = short.iter().map(|(_, time)| *time).sum();
        let parts = [("firmware", self.firmware)].into_iter();
        let parts = parts
            .chain(long.iter().map(|(name, time)| (name.as_str(), *time)))
            .chain((!short.is_empty()).then_some(("the rest", rest)));
        let parts: Vec<String> =
            parts.map(|(name, time)| format!("{name} {}", duration(time))).collect();
        let addresses = if self.addresses.is_empty() {
            String::new()
        } else {
            format!("; {}", self.addresses.join(", "))
        };
        format!(
            "ready after {}: {}{addresses}",
            duration(self.ready.unwrap_or_default()),
            parts.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::vm::console::Console;

    fn boot(console: &str) -> Boot {
        let mut boot = Boot::default();
        for (index, line) in Console::default().feed(console.as_bytes()).into_iter().enumerate() {
            if let Some(event) = line.event {
                boot.note(event, Duration::from_secs(10 + index as u64));
            }
        }
        boot
    }

    #[test]
    fn the_summary_lists_the_time_of_each_long_phase() {
        let boot = boot(
            "init: phase mounts 4.500\ninit: phase limits 4.520\ninit: phase data 6.020\ninit: \
             phase logs 6.030\n\
                         init: address 10.0.2.15/24 on eth0\ninit: READY 6.1\n",
        );
        assert_eq!(
            boot.summary(),
            "ready after 15.0 s: firmware 5.5 s, mounts 4.5 s, data 1.5 s, the rest 0.03 s; \
             10.0.2.15/24 on eth0"
        );
    }

    #[test]
    fn a_second_boot_replaces_the_first() {
        let boot = boot(
            "init: phase early 4.5\ninit: phase mounts 6.0\ninit: READY\ninit: phase early 4.0\n",
        );
        assert_eq!(boot.phases, [("early".to_owned(), Duration::from_secs(4))]);
        assert_eq!((boot.firmware, boot.ready), (Duration::from_secs(9), None));
    }

    #[test]
    fn a_boot_that_hangs_names_its_last_phase() {
        assert_eq!(
            boot("init: phase early 4.5\n").progress(),
            "the last completed phase is `early`"
        );
        assert_eq!(boot("Linux\n").progress(), "`init` has not completed any phase yet");
    }

    #[test]
    fn out_of_range_seconds_are_accepted() {
        assert_eq!(boot("init: phase early 1e300\ninit: phase mounts -4\n").phases.len(), 2);
    }
}
