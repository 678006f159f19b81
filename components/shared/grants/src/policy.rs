//! The policy for updates, as the owner of the cluster sets it.

use osbuild_rollout::{Window, is_any_open};
use serde::Deserialize;

/// The policy, as `policy.toml` has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Policy {
    /// How many nodes are drained or reboot at the same time, at most.
    pub at_once: Share,
    /// When nodes are drained; at any time if there are none.
    pub windows: Vec<Window>,
    /// The percentage of the nodes that belong to the first wave, to the first and the second one,
    /// and so on. All others are the last wave.
    pub waves: Vec<u8>,
    /// How many seconds a node of each next wave waits longer. Zero counts as one: nodes see a
    /// release one after the other, so the first one to ask may be of the last wave.
    pub wave_s: u32,
    /// After this many failures a release is granted to no further node. A percentage is that of
    /// the nodes that have tried it.
    pub stop_after_failures: Share,
    /// How long a node is drained before the tool gives up and leaves it for later.
    pub drain_timeout_s: u32,
    /// How much later.
    pub drain_retry_s: u32,
    /// How long a node may take from its grant to its result. One that takes longer has failed.
    pub reboot_timeout_s: u32,
    /// After this time, a Node says why it waits.
    pub deadline_s: u32,
}

/// A number of nodes: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub enum Share {
    /// This many.
    Count(u32),
    /// This share of some nodes, but at least one.
    Percent(u32),
}

/// A number, or a text such as `10%`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Count(u32),
    Text(String),
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            at_once: Share::Count(1),
            windows: Vec::new(),
            waves: Vec::new(),
            wave_s: 3600,
            stop_after_failures: Share::Count(1),
            drain_timeout_s: 900,
            drain_retry_s: 3600,
            reboot_timeout_s: 1800,
            deadline_s: 86_400,
        }
    }
}

impl TryFrom<Written> for Share {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let percent = |text: &str| text.strip_suffix('%')?.parse().ok();
        match written {
            Written::Count(0) => Err("a number of nodes is at least 1".to_owned()),
            Written::Count(count) => Ok(Share::Count(count)),
            Written::Text(text) => match percent(&text) {
                Some(percent @ 1..=100) => Ok(Share::Percent(percent)),
                _ => Err(format!("`{text}` is not a percentage from `1%` to `100%`")),
            },
        }
    }
}

impl Share {
    /// The number, where there are `nodes` of them.
    pub fn of(self, nodes: usize) -> usize {
        match self {
            Share::Count(count) => count as usize,
            Share::Percent(percent) => (nodes * percent as usize / 100).max(1),
        }
    }
}

impl Policy {
    /// Reads the policy.
    ///
    /// # Errors
    /// It is no TOML, a key is unknown, or a value is not allowed.
    pub fn parse(text: &str) -> Result<Policy, String> {
        let policy: Policy = toml::from_str(text).map_err(|error| error.to_string())?;
        let ascend = policy.waves.is_sorted_by(|one, next| one < next);
        if !ascend || !policy.waves.iter().all(|percent| (1..100).contains(percent)) {
            return Err(
                "`waves` are percentages from 1 to 99, each above the one before".to_owned()
            );
        }
        Ok(policy)
    }

    /// The wave of a node at this place, from 0.
    pub(crate) fn wave(&self, place: u16) -> usize {
        let is_before = |percent: &&u8| u16::from(**percent) * 100 <= place;
        self.waves.iter().take_while(is_before).count()
    }

    pub(crate) fn is_window_open(&self, now: i64) -> bool {
        is_any_open(&self.windows, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_policy_allows_one_node_at_any_time() {
        let policy = Policy::parse("").unwrap();
        assert_eq!(policy, Policy::default());
        assert_eq!(policy.at_once.of(100), 1);
        assert!(policy.is_window_open(0));
    }

    #[test]
    fn a_percentage_is_one_node_at_least() {
        let at_once = |text: &str| Policy::parse(text).map(|policy| policy.at_once);
        assert_eq!(at_once("at-once = '3%'"), Ok(Share::Percent(3)));
        assert_eq!((Share::Percent(3).of(100_000), Share::Percent(3).of(20)), (3000, 1));
        for wrong in ["0", "'0%'", "'101%'", "'3'", "-1", "[]"] {
            assert!(at_once(&format!("at-once = {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_place_belongs_to_the_first_wave_that_contains_it() {
        let policy = Policy::parse("waves = [1, 10]\nwave-s = 60").unwrap();
        let waves = [0, 99, 100, 999, 1000, 9999].map(|place| policy.wave(place));
        assert_eq!(waves, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused() {
        for wrong in
            ["waves = [10, 1]", "waves = [0]", "waves = [100]", "stop-after-failures = 0", "at = 1"]
        {
            assert!(Policy::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_policy_of_an_earlier_release_counts() {
        assert_eq!(Policy::parse("waves = [1]").unwrap().wave_s, 3600);
        assert_eq!(Policy::parse("waves = [1]\nwave-s = 0").unwrap().wave_s, 0);
    }
}
