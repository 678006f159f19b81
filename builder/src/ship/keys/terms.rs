//! The validity of certificates and keys.

use crate::plan::Date;

/// The validity of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The first day.
    pub since: Date,
    /// The number of years.
    pub years: u16,
}

/// The last day of a validity. One that begins on 29 February ends on the 28th.
pub(super) fn last_day(terms: Terms) -> Date {
    let Date { year, month, day } = terms.since;
    Date { year: year + terms.years, month, day: if (month, day) == (2, 29) { 28 } else { day } }
}
