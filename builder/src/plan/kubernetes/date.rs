//! A date. The current one is always an argument: a plan reads no clock.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A day of the Gregorian calendar in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The year.
    pub year: u16,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
}

impl Date {
    /// The date of a time in seconds since 1970 (Howard Hinnant's civil-from-days algorithm).
    pub fn from_unix(seconds: u64) -> Self {
        let days = seconds / 86_400 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        Date { year: u16::try_from(year).unwrap_or(u16::MAX), month: month as u8, day: day as u8 }
    }

    /// The date this many days later.
    pub fn plus_days(self, days: u32) -> Self {
        Date::from_unix(self.unix() + u64::from(days) * 86_400)
    }

    /// The start of the day in seconds since 1970 (days-from-civil, by the same author); 0 for a
    /// date before 1970.
    fn unix(self) -> u64 {
        let (month, day) = (u64::from(self.month), u64::from(self.day));
        let year = u64::from(self.year) - u64::from(month <= 2);
        let (era, year_of_era) = (year / 400, year % 400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        (era * 146_097 + day_of_era).saturating_sub(719_468) * 86_400
    }
}

impl FromStr for Date {
    type Err = Error;

    /// Reads `YYYY-MM-DD`.
    fn from_str(text: &str) -> Result<Self> {
        let day = text
            .parse::<toml::value::Datetime>()
            .ok()
            .filter(|found| found.time.is_none())
            .and_then(|found| found.date);
        match day {
            Some(day) => Ok(Date { year: day.year, month: day.month, day: day.day }),
            None => {
                Err(Error::usage(format!("`{text}` is not a date")).hint("write it as 2026-11-21"))
            }
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_known_dates() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_790_000_000, "2026-09-21"),
            (4_107_542_399, "2100-02-28"),
        ] {
            assert_eq!(Date::from_unix(seconds).to_string(), day);
            assert_eq!(day.parse::<Date>().unwrap(), Date::from_unix(seconds));
        }
    }

    #[test]
    fn days_are_added_across_months_and_leap_years() {
        for (day, days, later) in [
            ("2026-11-21", 90, "2027-02-19"),
            ("2028-02-28", 1, "2028-02-29"),
            ("2000-01-01", 36_525, "2100-01-01"),
        ] {
            assert_eq!(day.parse::<Date>().unwrap().plus_days(days).to_string(), later);
        }
        let days = (0..4_107_542_399).step_by(86_400);
        assert!(days.clone().count() > 40_000);
        days.for_each(|second| assert_eq!(Date::from_unix(second).unix(), second));
    }

    #[test]
    fn text_that_is_not_a_date_is_refused() {
        for wrong in ["", "2026", "2026-02-30", "2026-11-21T10:00:00", "21.11.2026"] {
            assert!(wrong.parse::<Date>().is_err(), "{wrong}");
        }
    }
}
