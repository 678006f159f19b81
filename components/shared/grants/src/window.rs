//! Maintenance windows, in UTC.

use serde::Deserialize;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A time of the week at which nodes may be drained.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The days on which it begins; every day if there are none.
    #[serde(default)]
    days: Vec<Day>,
    /// When it begins, `HH:MM`.
    start: Start,
    /// How long it is, up to a day.
    hours: Hours,
}

/// A day of the week. 1970 began on the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Day {
    Thu,
    Fri,
    Sat,
    Sun,
    Mon,
    Tue,
    Wed,
}

/// Seconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Start(i64);

/// 1 to 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
struct Hours(i64);

impl TryFrom<String> for Start {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let part =
            |text: &str, below| text.parse::<i64>().ok().filter(|part| (0..below).contains(part));
        let seconds = text.split_once(':').and_then(|(hours, minutes)| {
            Some(part(hours, 24)? * HOUR + part(minutes, 60)? * MINUTE)
        });
        seconds.map(Start).ok_or_else(|| format!("`{text}` is not a time `HH:MM`"))
    }
}

impl TryFrom<i64> for Hours {
    type Error = String;

    fn try_from(hours: i64) -> Result<Self, String> {
        match hours {
            1..=24 => Ok(Hours(hours)),
            _ => Err(format!("a window has 1 to 24 hours, not {hours}")),
        }
    }
}

impl Window {
    /// Whether it is open at this second since 1970.
    pub fn is_open(&self, now: i64) -> bool {
        // It may have begun yesterday.
        [0, DAY].into_iter().any(|ago| {
            let midnight = (now - ago).div_euclid(DAY) * DAY;
            let opened = midnight + self.start.0;
            self.begins_on(midnight) && (opened..opened + self.hours.0 * HOUR).contains(&now)
        })
    }

    fn begins_on(&self, midnight: i64) -> bool {
        let number = midnight.div_euclid(DAY).rem_euclid(7);
        self.days.is_empty() || self.days.iter().any(|day| *day as i64 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn is_open(window: &str, at: &str) -> bool {
        let window: Window = toml::from_str(window).unwrap();
        window.is_open(at.parse::<Timestamp>().unwrap().as_second())
    }

    #[test]
    fn a_window_is_open_from_its_start_and_may_last_past_midnight() {
        // 2026-11-21 is a Saturday.
        let night = "days = ['sat']\nstart = '22:30'\nhours = 4";
        for (at, open) in [
            ("2026-11-21T22:29:59Z", false),
            ("2026-11-21T22:30:00Z", true),
            ("2026-11-22T02:29:59Z", true),
            ("2026-11-22T02:30:00Z", false),
            ("2026-11-22T23:00:00Z", false),
            ("2026-11-28T23:00:00Z", true),
        ] {
            assert_eq!(is_open(night, at), open, "{at}");
        }
        assert!(is_open("start = '00:00'\nhours = 24", "2026-11-25T12:00:00Z"));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for wrong in [
            "start = '24:00'\nhours = 1",
            "start = '1'\nhours = 1",
            "start = '01:00'\nhours = 25",
            "start = '01:00'\nhours = 1\ndays = ['someday']",
            "start = '01:00'\nhours = 1\nzone = 'CET'",
        ] {
            assert!(toml::from_str::<Window>(wrong).is_err(), "{wrong}");
        }
    }
}
