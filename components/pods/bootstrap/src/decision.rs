//! Whether the document of a machine is placed on DATA: only where nobody has decided otherwise.

use crate::instance::Instance;

/// A document of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The machine.
    pub instance: Instance,
    /// When it was signed to replace any other one, in seconds since 1970.
    pub replaces: Option<u64>,
    /// The document.
    pub text: String,
}

/// The node's knowledge of the documents of earlier boots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The machine whose document was placed last, and that document.
    pub placed: Option<(Instance, String)>,
    /// The latest time of a document that replaced others.
    pub latest: Option<u64>,
    /// The machines whose documents gave way to one that replaced others or to the owner's, since a
    /// document of neither kind was placed. A source may still have them.
    pub former: Vec<Instance>,
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

/// Decides about `found`, with the document `on_data` and what is known of earlier boots.
pub fn decide(on_data: Option<&str>, known: &Known, found: &Found) -> Decision {
    let placed = known.placed.as_ref();
    let is_same = placed.is_some_and(|(instance, _)| *instance == found.instance);
    let is_former = known.former.contains(&found.instance);
    let is_unedited = placed.is_some_and(|(_, text)| on_data == Some(text));
    let replaces = found.replaces > known.latest;
    match on_data {
        Some(text) if text == found.text && is_same && is_unedited && !replaces => Decision::Keep,
        Some(text) if text == found.text => Decision::Record,
        _ if replaces => Decision::Place,
        None if is_same => Decision::Removed,
        None => Decision::Place,
        Some(_) if is_unedited && is_same => Decision::Changed,
        // The disk is a copy of another machine's, whose document nobody has edited.
        Some(_) if is_unedited && !is_former => Decision::Place,
        Some(_) => Decision::Owners,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(instance: &str, text: &str) -> Found {
        let instance = Instance::parse(instance).unwrap();
        Found { instance, replaces: None, text: text.to_owned() }
    }

    /// The decision after a boot that has placed a document, if one has.
    fn decide(on_data: Option<&str>, placed: Option<&Found>, found: &Found) -> Decision {
        let known = placed.map_or_else(Known::default, |placed| Known {
            placed: Some((placed.instance.clone(), placed.text.clone())),
            latest: placed.replaces,
            former: Vec::new(),
        });
        super::decide(on_data, &known, found)
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
