//! The differences between two sets of named things.

use serde::Serialize;
use std::collections::BTreeMap;

/// A name with different values in two sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change<T> {
    /// The name.
    pub name: String,
    /// The value in the first set; `None` if the name is missing there.
    pub a: Option<T>,
    /// The value in the second set; `None` if the name is missing there.
    pub b: Option<T>,
}

/// Returns the differences between two sets, sorted by name.
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

/// The differences between two lists of words. A list may repeat a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Words {
    /// The words that only the first list has.
    pub removed: Vec<String>,
    /// The words that only the second list has.
    pub added: Vec<String>,
    /// Whether both lists have the same words in a different order. Order matters: of several
    /// options with the same name, the last one counts.
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
        fn a_list_equals_itself(words in "[ab =]{0,20}") {
            prop_assert!(Words::compare(&words, &words).is_empty());
        }
    }

    #[test]
    fn a_repeated_word_is_counted() {
        let found = Words::compare("console=a quiet console=a", "quiet console=a console=b");
        assert_eq!(
            (found.removed, found.added, found.reordered),
            (vec!["console=a".into()], vec!["console=b".into()], false)
        );
    }

    #[test]
    fn a_different_order_is_a_difference() {
        assert!(Words::compare("a b", "b a").reordered);
    }
}
