//! The validity of certificates and keys.

use crate::plan::Date;
use rcgen::CertificateParams;
use std::time::Duration;

/// The length of a day without its last second.
const TO_LAST_SECOND: Duration = Duration::from_secs(24 * 60 * 60 - 1);

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

/// Sets the validity of a certificate: from the first second of the first day to the last second of
/// the last one.
pub(super) fn set_validity(params: &mut CertificateParams, terms: Terms) {
    let [since, until] = [terms.since, last_day(terms)]
        .map(|Date { year, month, day }| rcgen::date_time_ymd(year.into(), month, day));
    (params.not_before, params.not_after) = (since, until + TO_LAST_SECOND);
}
