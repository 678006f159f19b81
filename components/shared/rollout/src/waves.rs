//! Which nodes get a release one after the other.

use serde::{Deserialize, Serialize};

use crate::Portion;

const HOUR: i64 = 3600;

/// Nodes that get a release in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Wave {
    /// The part of all nodes that has been reached when the wave ends, with the waves before it.
    nodes: Portion,
    /// When it begins, in hours after the rollout.
    #[serde(default, skip_serializing_if = "is_zero")]
    after_hours: u16,
    /// In how many hours its nodes begin, evenly one after the other; 0 for all at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    over_hours: u16,
}

/// The waves, each behind the one before. Without any, all nodes get the release at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Wave>")]
pub struct Waves(Vec<Wave>);

fn is_zero(hours: &u16) -> bool {
    *hours == 0
}

impl Wave {
    fn ends(&self) -> u32 {
        u32::from(self.after_hours) + u32::from(self.over_hours)
    }

    /// The part of all nodes that has been reached when it ends.
    pub fn nodes(&self) -> Portion {
        self.nodes
    }

    /// When it begins, in hours after the rollout.
    pub fn after_hours(&self) -> u16 {
        self.after_hours
    }
}

impl TryFrom<Vec<Wave>> for Waves {
    type Error = String;

    fn try_from(waves: Vec<Wave>) -> Result<Self, String> {
        let is_behind = |one: &Wave, next: &Wave| one.ends() <= next.after_hours.into();
        if !waves.is_sorted_by(|one, next| one.nodes < next.nodes) {
            return Err("each wave must reach more nodes than the one before".to_owned());
        }
        match waves.is_sorted_by(is_behind) {
            true => Ok(Waves(waves)),
            false => Err("a wave must begin when the one before has ended, or later".to_owned()),
        }
    }
}

impl Waves {
    /// All of them.
    pub fn list(&self) -> &[Wave] {
        &self.0
    }

    /// The part of all nodes that they reach.
    pub fn reach(&self) -> Portion {
        self.0.last().map_or(Portion::ALL, Wave::nodes)
    }

    /// When a node at this place begins, in seconds after the rollout; `None` if no wave reaches
    /// it.
    pub fn begin(&self, place: u16) -> Option<i64> {
        let mut first = 0;
        for wave in &self.0 {
            let end = wave.nodes.places();
            if place < end {
                let (ahead, all) = (i64::from(place - first), i64::from(end - first));
                let spread = i64::from(wave.over_hours) * HOUR * ahead / all;
                return Some(i64::from(wave.after_hours) * HOUR + spread);
            }
            first = end;
        }
        self.0.is_empty().then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(waves: &str) -> Result<Waves, String> {
        #[derive(Deserialize)]
        struct File {
            waves: Waves,
        }
        let file = toml::from_str::<File>(&format!("waves = {waves}"));
        file.map(|file| file.waves).map_err(|error| error.to_string())
    }

    #[test]
    fn a_place_belongs_to_the_first_wave_that_reaches_it() {
        let waves = read("[{ nodes = '1%' }, { nodes = '10%', after-hours = 24 }]").unwrap();
        let begins = [0, 99, 100, 999, 1000, 9999].map(|place| waves.begin(place));
        let day = Some(24 * HOUR);
        assert_eq!(begins, [Some(0), Some(0), day, day, None, None]);
        assert_eq!(waves.reach().to_string(), "10%");
    }

    #[test]
    fn the_nodes_of_a_long_wave_begin_one_after_the_other() {
        let waves =
            read("[{ nodes = '1%' }, { nodes = '100%', after-hours = 10, over-hours = 99 }]");
        let begin = |place| waves.as_ref().unwrap().begin(place).unwrap();
        assert_eq!([begin(99), begin(100), begin(200)], [0, 10 * HOUR, 11 * HOUR]);
        assert!((108 * HOUR..109 * HOUR).contains(&begin(9999)));
    }

    #[test]
    fn without_waves_all_nodes_begin_at_once() {
        assert_eq!([0, 9999].map(|place| Waves::default().begin(place)), [Some(0); 2]);
    }

    #[test]
    fn waves_that_make_no_sense_are_refused() {
        for (wrong, why) in [
            ("[{ nodes = '101%' }]", "percentage"),
            ("[{ nodes = 1 }]", "string"),
            ("[{ after-hours = 1 }]", "missing field `nodes`"),
            ("[{ nodes = '1%', after-hours = -1 }]", "invalid value"),
            ("[{ nodes = '1%', after-hours = 65536 }]", "invalid value"),
            ("[{ nodes = '1%', hours = 1 }]", "unknown field"),
            ("[{ nodes = '10%' }, { nodes = '1%', after-hours = 1 }]", "more nodes"),
            ("[{ nodes = '10%' }, { nodes = '10%', after-hours = 1 }]", "more nodes"),
            ("[{ nodes = '1%', after-hours = 2 }, { nodes = '9%', after-hours = 1 }]", "has ended"),
            ("[{ nodes = '1%', over-hours = 2 }, { nodes = '9%', after-hours = 1 }]", "has ended"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_node_that_is_further_ahead_never_begins_later(
            steps in prop::collection::vec((1u16..2000, 0u16..100, 0u16..100), 0..6),
            places in (0u16..10_000, 0u16..10_000),
        ) {
            let (mut all, mut reached, mut hours) = (Vec::new(), 0, 0);
            for (more, pause, over_hours) in steps {
                reached = (reached + more).min(10_000);
                let nodes = format!("{}.{:02}%", reached / 100, reached % 100);
                let nodes = Portion::try_from(nodes).unwrap();
                if all.last().is_none_or(|wave: &Wave| wave.nodes < nodes) {
                    all.push(Wave { nodes, after_hours: hours + pause, over_hours });
                    hours += pause + over_hours;
                }
            }
            let waves = Waves::try_from(all).unwrap();
            let [one, next] =
                [places.0.min(places.1), places.0.max(places.1)].map(|place| waves.begin(place));
            // `None` is never.
            let never = i64::MAX;
            prop_assert!(one.unwrap_or(never) <= next.unwrap_or(never));
            prop_assert!(one.is_none_or(|begin| begin <= i64::from(hours) * HOUR));
        }
    }
}
