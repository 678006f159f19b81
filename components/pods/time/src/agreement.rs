//! Selects the correct ones of several servers (Marzullo's algorithm, as in RFC 5905, 11.2.1): each
//! server gives a time and a maximum error, and the result is the time within the errors of most
//! servers.

/// The result of one query. All spans are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The offset of the server's clock from this one; positive if this clock is behind.
    pub offset: i64,
    /// The round-trip delay.
    pub delay: u64,
    /// The server's root distance: its maximum error relative to the reference clock.
    pub root_distance: u64,
    /// The number of servers between it and the reference clock.
    pub stratum: u8,
}

/// With this many servers, one wrong server cannot change the result.
pub const CONFIRMED: usize = 3;
/// The minimum error of a server. Busy machines and networks cause this much, whatever the server
/// reports.
const MIN_ERROR: u64 = 100_000;
/// The maximum error: a server that reports a huge one must not agree with every other server.
const MAX_ERROR: u64 = 1_000_000;

/// The result on which more than half of the servers agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The offset by which the clock is behind, in microseconds.
    pub offset: i64,
    /// The number of servers that agree.
    pub agreeing: usize,
    /// The number of servers that answered.
    pub answered: usize,
}

impl Agreement {
    /// Whether enough servers answered to outvote a single wrong one.
    pub fn is_confirmed(&self) -> bool {
        self.answered >= CONFIRMED
    }
}

impl Sample {
    /// The smallest and the largest offset that may be correct.
    fn range(&self) -> (i64, i64) {
        let error =
            (self.delay / 2).saturating_add(self.root_distance).clamp(MIN_ERROR, MAX_ERROR) as i64;
        (self.offset.saturating_sub(error), self.offset.saturating_add(error))
    }
}

/// Returns the offset on which more than half of the servers agree; `None` without such a majority,
/// so two servers both have to agree.
pub fn agree(samples: &[Sample]) -> Option<Agreement> {
    let within = |offset: i64| {
        samples
            .iter()
            .filter(move |sample| sample.range().0 <= offset && offset <= sample.range().1)
    };
    // The largest overlap starts where one of the ranges starts.
    let begins = samples.iter().map(|sample| sample.range().0);
    let best = begins.max_by_key(|offset| within(*offset).count())?;
    let mut offsets: Vec<i64> = within(best).map(|sample| sample.offset).collect();
    if offsets.len() * 2 <= samples.len() {
        return None;
    }
    offsets.sort_unstable();
    let offset = *offsets.get(offsets.len() / 2)?;
    Some(Agreement { offset, agreeing: offsets.len(), answered: samples.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(offset: i64) -> Sample {
        Sample { offset, delay: 100, root_distance: 4_000, stratum: 2 }
    }

    fn agreed(offsets: &[i64]) -> Option<(i64, usize)> {
        let samples: Vec<Sample> = offsets.iter().map(|offset| sample(*offset)).collect();
        agree(&samples).map(|agreement| (agreement.offset, agreement.agreeing))
    }

    #[test]
    fn of_three_servers_one_may_lie() {
        assert_eq!(agreed(&[1_000_000_000, 5, 7]), Some((7, 2)));
        assert_eq!(agreed(&[i64::MIN, 5, i64::MAX]), None);
    }

    #[test]
    fn two_servers_that_disagree_have_no_result() {
        assert_eq!(agreed(&[5, 7]), Some((7, 2)));
        assert_eq!(agreed(&[5, 1_000_000]), None);
    }

    #[test]
    fn one_server_is_a_majority_but_none_is_not() {
        assert_eq!(agreed(&[5]), Some((5, 1)));
        assert_eq!(agreed(&[]), None);
        assert!(
            !agree(&[sample(5)]).unwrap().is_confirmed()
                && agree(&[sample(5); 3]).unwrap().is_confirmed()
        );
    }

    #[test]
    fn two_pairs_are_not_a_majority() {
        assert_eq!(agreed(&[0, 10, 5_000_000, 5_000_010]), None);
        assert_eq!(agreed(&[0, 10, 20, 5_000_010]), Some((10, 3)));
    }

    #[test]
    fn a_huge_error_does_not_make_a_server_agree() {
        let vague = Sample { root_distance: u64::MAX, ..sample(10_000_000) };
        assert_eq!(agree(&[sample(0), vague]), None);
    }

    proptest! {
        #[test]
        fn a_majority_of_honest_servers_is_never_outvoted(
            honest in prop::collection::vec(-50_000..50_000i64, 3..5),
            lies in prop::collection::vec(any::<i64>(), 0..3),
            at in 0..3usize,
        ) {
            let mut offsets = honest;
            lies.iter().for_each(|lie| offsets.insert(at, *lie));
            let (offset, _) = agreed(&offsets).unwrap();
            // A wrong server can reach the edge of the honest servers' ranges at most.
            prop_assert!(offset.abs() <= 250_000, "{offset}");
        }

        #[test]
        fn any_samples_agree_or_do_not(
            samples in prop::collection::vec((any::<i64>(), any::<u64>(), any::<u64>()), 0..9),
        ) {
            let sample = |(offset, delay, root_distance)| {
                Sample { offset, delay, root_distance, stratum: 1 }
            };
            let samples: Vec<Sample> = samples.into_iter().map(sample).collect();
            if let Some(agreement) = agree(&samples) {
                prop_assert!(agreement.agreeing * 2 > samples.len());
                prop_assert!(samples.iter().any(|sample| sample.offset == agreement.offset));
            }
        }
    }
}
