//! Which of several servers are right (Marzullo's algorithm, as in RFC 5905, 11.2.1): each says
//! when it is within an error, and the moment that lies within the errors of most of them is
//! believed.

/// What a server has answered. All spans are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How far the clock is behind the server's.
    pub offset: i64,
    /// How long question and answer were under way.
    pub delay: u64,
    /// How far the server says that it is from a reference clock at most.
    pub root_distance: u64,
    /// How many servers away the reference clock is.
    pub stratum: u8,
}

/// As many servers make a result that one liar cannot change.
pub const CONFIRMED: usize = 3;
/// The least error that a server is granted. Whatever it says of itself, that much comes from busy
/// machines and networks.
const MIN_ERROR: u64 = 100_000;
/// The greatest: a server that says nothing for certain agrees with nobody by that.
const MAX_ERROR: u64 = 1_000_000;

/// What more than half of the servers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// How far the clock is behind, in microseconds.
    pub offset: i64,
    /// How many servers say so.
    pub agreeing: usize,
    /// How many have answered.
    pub answered: usize,
}

impl Agreement {
    /// Whether there are enough servers that a single liar would have been outvoted.
    pub fn is_confirmed(&self) -> bool {
        self.answered >= CONFIRMED
    }
}

impl Sample {
    /// The first and the last offset that may be the right one.
    fn range(&self) -> (i64, i64) {
        let error =
            (self.delay / 2).saturating_add(self.root_distance).clamp(MIN_ERROR, MAX_ERROR) as i64;
        (self.offset.saturating_sub(error), self.offset.saturating_add(error))
    }
}

/// What more than half of the servers agree on: nothing where no majority does, so of two both have
/// to.
pub fn agree(samples: &[Sample]) -> Option<Agreement> {
    let within = |offset: i64| {
        samples
            .iter()
            .filter(move |sample| sample.range().0 <= offset && offset <= sample.range().1)
    };
    // Where most ranges overlap, one of them begins.
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
    fn of_two_servers_that_disagree_none_is_believed() {
        assert_eq!(agreed(&[5, 7]), Some((7, 2)));
        assert_eq!(agreed(&[5, 1_000_000]), None);
    }

    #[test]
    fn one_server_agrees_with_itself_and_none_with_nobody() {
        assert_eq!(agreed(&[5]), Some((5, 1)));
        assert_eq!(agreed(&[]), None);
        assert!(
            !agree(&[sample(5)]).unwrap().is_confirmed()
                && agree(&[sample(5); 3]).unwrap().is_confirmed()
        );
    }

    #[test]
    fn two_pairs_are_no_majority() {
        assert_eq!(agreed(&[0, 10, 5_000_000, 5_000_010]), None);
        assert_eq!(agreed(&[0, 10, 20, 5_000_010]), Some((10, 3)));
    }

    #[test]
    fn a_server_that_claims_a_huge_error_agrees_with_nobody_by_that() {
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
            // A liar can at most be at the edge of what honest servers could say.
            prop_assert!(offset.abs() <= 250_000, "{offset}");
        }

        #[test]
        fn any_samples_agree_or_do_not(
            samples in prop::collection::vec((any::<i64>(), any::<u64>(), any::<u64>()), 0..9),
        ) {
            let sample = |(offset, delay, root_distance)| Sample { offset, delay, root_distance, stratum: 1 };
            let samples: Vec<Sample> = samples.into_iter().map(sample).collect();
            if let Some(agreement) = agree(&samples) {
                prop_assert!(agreement.agreeing * 2 > samples.len());
                prop_assert!(samples.iter().any(|sample| sample.offset == agreement.offset));
            }
        }
    }
}
