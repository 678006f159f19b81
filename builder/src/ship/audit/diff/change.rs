//! What differs between two sets of named things.

use serde::Serialize;
use std::collections::BTreeMap;

/// A name under which two sets have not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change<T> {
    /// The name.
    pub name: String,
    /// What the first set has; none if it has not the name.
    pub a: Option<T>,
    /// What the second set has; none if it has not the name.
    pub b: Option<T>,
}

/// What differs between two sets, in the order of the names.
pub(super) fn changes<T: PartialEq>(
    a: BTreeMap<String, T>,
    mut b: BTreeMap<String, T>,
) -> Vec<Change<T>> {
    let mut changes = Vec::new();
    for (name, one) in a {
        let other = b.remove(&name);
        if other.as_ref() != Some(&one) {
            changes.push(Change { name, a: Some(one), b: other });
        }
    }
    changes.extend(b.into_iter().map(|(name, other)| Change { name, a: None, b: Some(other) }));
    changes.sort_by(|one, other| one.name.cmp(&other.name));
    changes
}

/// What differs between two lists of words. A word may stand in a list more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Words {
    /// Those that the first list alone has.
    pub removed: Vec<String>,
    /// Those that the second list alone has.
    pub added: Vec<String>,
    /// Whether both have the same words in another order. The last of several words for one thing
    /// counts.
    pub reordered: bool,
}

impl Words {
    pub(super) fn compare(a: &str, b: &str) -> Self {
        let [mut removed, mut added] =
            [a, b].map(|words| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let same = removed == added;
        added.retain(|word| match removed.iter().position(|other| other == word) {
            Some(index) => {
                removed.remove(index);
                false
            }
            None => true,
        });
        Words { reordered: !same && removed.is_empty() && added.is_empty(), removed, added }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.reordered && self.removed.is_empty() && self.added.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_changes_turn_one_set_into_the_other(
            a: BTreeMap<String, u8>,
            b: BTreeMap<String, u8>,
        ) {
            let mut turned = a.clone();
            for Change { name, a: old, b: new } in changes(a, b.clone()) {
                prop_assert_eq!(turned.remove(&name), old);
                prop_assert_ne!(old, new);
                turned.extend(new.map(|new| (name, new)));
            }
            prop_assert_eq!(turned, b);
        }

        #[test]
        fn a_list_does_not_differ_from_itself(words in "[ab =]{0,20}") {
            prop_assert!(Words::compare(&words, &words).is_empty());
        }
    }

    #[test]
    fn a_word_that_stands_twice_is_counted() {
        let found = Words::compare("console=a quiet console=a", "quiet console=a console=b");
        assert_eq!(
            (found.removed, found.added, found.reordered),
            (vec!["console=a".into()], vec!["console=b".into()], false)
        );
    }

    #[test]
    fn another_order_is_a_difference() {
        assert!(Words::compare("a b", "b a").reordered);
    }
}
