//! Whether the document of a machine is placed on DATA: only where nobody has decided otherwise.

use crate::instance::Instance;

/// A document of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The machine.
    pub instance: Instance,
    /// When it was signed to replace any other one, in seconds since 1970. Of the document that was
    /// placed last, the latest such time that counted.
    pub replaces: Option<u64>,
    /// Of the document that was placed last, if it was signed to replace others: the machine that
    /// the document before it was for. Another source may still have that document.
    pub former: Option<Instance>,
    /// The document.
    pub text: String,
}

/// The decision about a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is placed.
    Place,
    /// It is on DATA, and is recorded as placed: a power cut came between the two.
    Record,
    /// It was placed earlier, and is still there.
    Keep,
    /// Another one was placed for this instance, and stays.
    Changed,
    /// It was placed for this instance, and has been removed since.
    Removed,
    /// The owner's document on DATA stays.
    Owners,
}

/// Decides about `found`, with the document `on_data` and the one that was placed last.
pub fn decide(on_data: Option<&str>, placed: Option<&Found>, found: &Found) -> Decision {
    let is_same = placed.is_some_and(|placed| placed.instance == found.instance);
    let is_former = placed.is_some_and(|placed| placed.former.as_ref() == Some(&found.instance));
    let replaces = found.replaces > placed.and_then(|placed| placed.replaces);
    match (on_data, placed) {
        (Some(text), Some(placed))
            if is_same && !replaces && text == found.text && text == placed.text =>
        {
            Decision::Keep
        }
        (Some(text), _) if text == found.text => Decision::Record,
        _ if replaces => Decision::Place,
        (None, _) if is_same => Decision::Removed,
        (None, _) => Decision::Place,
        // The disk is a copy of another machine's, whose document nobody has edited.
        (Some(text), Some(placed)) if !is_same && !is_former && text == placed.text => {
            Decision::Place
        }
        (Some(text), Some(placed)) if is_same && text == placed.text => Decision::Changed,
        (Some(_), _) => Decision::Owners,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(instance: &str, text: &str) -> Found {
        let instance = Instance::parse(instance).unwrap();
        Found { instance, replaces: None, former: None, text: text.to_owned() }
    }

    #[test]
    fn a_document_that_replaces_counts_once_and_only_after_earlier_ones() {
        let of = |time, text| Found { replaces: Some(time), ..found("i-1", text) };
        let [first, second] = [of(1, "b"), of(2, "c")];
        for (on_data, placed, found, decision) in [
            (Some("own"), None, &first, Decision::Place),
            (Some("own"), Some(&found("i-1", "a")), &first, Decision::Place),
            (None, Some(&found("i-1", "a")), &first, Decision::Place),
            (Some("b"), Some(&first), &first, Decision::Keep),
            (Some("b"), Some(&first), &second, Decision::Place),
            (Some("c"), Some(&second), &first, Decision::Changed),
            (Some("own"), Some(&second), &second, Decision::Owners),
            (None, Some(&second), &second, Decision::Removed),
            (Some("c"), Some(&first), &second, Decision::Record),
        ] {
            assert_eq!(
                decide(on_data, placed, found),
                decision,
                "{on_data:?} {placed:?} {found:?}"
            );
        }
    }

    #[test]
    fn a_document_is_placed_once_for_each_instance() {
        let [first, changed, other] = [found("i-1", "a"), found("i-1", "b"), found("i-2", "b")];
        for (on_data, placed, found, decision) in [
            (None, None, &first, Decision::Place),
            (Some("a"), Some(&first), &first, Decision::Keep),
            (Some("a"), Some(&first), &changed, Decision::Changed),
            (Some("a"), Some(&first), &other, Decision::Place),
            (None, Some(&first), &first, Decision::Removed),
            (None, Some(&first), &changed, Decision::Removed),
            (None, Some(&first), &other, Decision::Place),
        ] {
            assert_eq!(
                decide(on_data, placed, found),
                decision,
                "{on_data:?} {placed:?} {found:?}"
            );
        }
    }

    #[test]
    fn the_owners_document_is_never_replaced() {
        let [first, other] = [found("i-1", "a"), found("i-2", "b")];
        assert_eq!(decide(Some("own"), None, &first), Decision::Owners);
        assert_eq!(decide(Some("own"), Some(&first), &first), Decision::Owners);
        assert_eq!(decide(Some("own"), Some(&first), &other), Decision::Owners);
    }

    #[test]
    fn a_power_cut_between_the_document_and_its_record_is_made_good() {
        let [first, other] = [found("i-1", "a"), found("i-2", "b")];
        assert_eq!(decide(Some("a"), None, &first), Decision::Record);
        assert_eq!(decide(Some("b"), Some(&first), &other), Decision::Record);
    }
}
