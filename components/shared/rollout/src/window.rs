//! Maintenance windows, in UTC.

use serde::{Deserialize, Serialize};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A time of the week at which nodes may begin to update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The days on which it begins; every day if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    days: Vec<Day>,
    /// When it begins, `HH:MM`.
    start: Start,
    /// How long it is, up to a day.
    hours: Hours,
}

/// A day of the week. 1970 began on the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Start(i64);

/// 1 to 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
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

impl From<Start> for String {
    fn from(start: Start) -> String {
        format!("{:02}:{:02}", start.0 / HOUR, start.0 % HOUR / MINUTE)
    }
}

impl From<Hours> for i64 {
    fn from(hours: Hours) -> i64 {
        hours.0
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

/// Whether nodes may begin at this second since 1970: at any time if there are no windows. Windows
/// may overlap.
pub fn is_any_open(windows: &[Window], now: i64) -> bool {
    windows.is_empty() || windows.iter().any(|window| window.is_open(now))
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

    /// The next second at which it opens.
    pub fn next_opening(&self, now: i64) -> i64 {
        let today = now.div_euclid(DAY) * DAY;
        // It begins on at least one day of a week.
        let days = (0..=7).map(|days| today + days * DAY).filter(|day| self.begins_on(*day));
        let mut openings = days.map(|day| day + self.start.0);
        openings.find(|opening| *opening > now).unwrap_or(i64::MAX)
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
    fn the_next_opening_is_the_first_second_of_a_window() {
        for (window, now, opening) in [
            ("start = '22:30'\nhours = 1", "2026-11-21T22:29:59Z", "2026-11-21T22:30:00Z"),
            ("start = '22:30'\nhours = 1", "2026-11-21T22:30:00Z", "2026-11-22T22:30:00Z"),
            (
                "days = ['sat']\nstart = '00:00'\nhours = 1",
                "2026-11-21T00:00:00Z",
                "2026-11-28T00:00:00Z",
            ),
            (
                "days = ['mon', 'fri']\nstart = '01:00'\nhours = 1",
                "2026-11-21T12:00:00Z",
                "2026-11-23T01:00:00Z",
            ),
        ] {
            let [at, expected] =
                [now, opening].map(|time| time.parse::<Timestamp>().unwrap().as_second());
            let window: Window = toml::from_str(window).unwrap();
            assert_eq!(window.next_opening(at), expected, "{now}");
            assert!(window.is_open(expected) && !window.is_open(expected - 1));
        }
    }

    #[test]
    fn overlapping_windows_are_open_as_one() {
        let windows: [Window; 2] = ["start = '01:00'\nhours = 2", "start = '02:00'\nhours = 2"]
            .map(|text| toml::from_str(text).unwrap());
        let open = [0, 1, 2, 3, 4].map(|hour| is_any_open(&windows, hour * HOUR));
        assert_eq!(open, [false, true, true, true, false]);
        assert!(is_any_open(&[], 0));
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
