//! Queries by label.

use crate::Number;
use std::collections::BTreeMap;

/// The labels of a resource.
pub type Labels = BTreeMap<String, String>;

/// The test that a term applies to a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The label exists.
    Exists,
    /// The value is this one.
    Equal(String),
    /// The value is one of these.
    In(Vec<String>),
    /// The value sorts before this one, byte by byte.
    Less(String),
    /// The value sorts before this one or equals it.
    AtMost(String),
    /// The value is a number below this one. Nothing is below a text that is no number.
    NumberLess(Option<Number>),
    /// The value is a number, and this one or below it.
    NumberAtMost(Option<Number>),
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelTerm {
    /// The label.
    pub key: String,
    /// The test that the label must pass.
    pub test: Test,
    /// Whether the label must fail the test instead.
    pub invert: bool,
}

impl LabelTerm {
    /// Whether the labels meet the condition. A value that cannot be compared does not, inverted or
    /// not.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.outcome(labels.get(&self.key)).is_some_and(|outcome| outcome != self.invert)
    }

    /// The outcome of the test before it is inverted, or `None` if there is nothing to compare.
    fn outcome(&self, value: Option<&String>) -> Option<bool> {
        let number = || Number::parse(value?);
        match &self.test {
            Test::Exists => Some(value.is_some()),
            Test::Equal(wanted) => Some(value == Some(wanted)),
            Test::In(wanted) => Some(value.is_some_and(|value| wanted.contains(value))),
            Test::Less(bound) => Some(value? < bound),
            Test::AtMost(bound) => Some(value? <= bound),
            Test::NumberLess(bound) => Some(number()? < (*bound)?),
            Test::NumberAtMost(bound) => Some(number()? <= (*bound)?),
        }
    }
}

/// Terms that must all match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelQuery(pub Vec<LabelTerm>);

impl LabelQuery {
    /// Whether the labels meet every condition.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|term| term.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels() -> Labels {
        [("app", "web"), ("size", "10kg"), ("name", "b")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    /// The outcomes of a test and of its opposite.
    fn both(key: &str, test: Test) -> [bool; 2] {
        [false, true].map(|invert| {
            LabelTerm { key: key.into(), test: test.clone(), invert }.matches(&labels())
        })
    }

    fn tests() -> impl Strategy<Value = Test> {
        let text = || "[a-z0-9]{0,3}";
        prop_oneof![
            Just(Test::Exists),
            text().prop_map(Test::Equal),
            prop::collection::vec(text(), 0..3).prop_map(Test::In),
            text().prop_map(Test::Less),
            text().prop_map(Test::AtMost),
            text().prop_map(|text| Test::NumberLess(Number::parse(&text))),
            text().prop_map(|text| Test::NumberAtMost(Number::parse(&text))),
        ]
    }

    #[test]
    fn a_present_label_is_compared() {
        const MATCHES: [bool; 2] = [true, false];
        const DIFFERS: [bool; 2] = [false, true];
        let number = |text| Number::parse(text);
        for (key, test, expected) in [
            ("app", Test::Exists, MATCHES),
            ("app", Test::Equal("web".into()), MATCHES),
            ("app", Test::Equal("db".into()), DIFFERS),
            ("app", Test::In(vec!["db".into(), "web".into()]), MATCHES),
            ("app", Test::In(vec![]), DIFFERS),
            ("name", Test::Less("b".into()), DIFFERS),
            ("name", Test::Less("c".into()), MATCHES),
            ("name", Test::AtMost("b".into()), MATCHES),
            ("size", Test::NumberLess(number("10k")), DIFFERS),
            ("size", Test::NumberLess(number("11k")), MATCHES),
            ("size", Test::NumberAtMost(number("10k")), MATCHES),
        ] {
            assert_eq!(both(key, test.clone()), expected, "{key} {test:?}");
        }
    }

    #[test]
    fn a_missing_label_differs_from_everything() {
        for test in [Test::Exists, Test::Equal("".into()), Test::In(vec!["".into()])] {
            assert_eq!(both("gone", test), [false, true]);
        }
    }

    #[test]
    fn what_cannot_be_compared_never_matches() {
        for test in [Test::Less("z".into()), Test::AtMost("z".into())] {
            assert_eq!(both("gone", test), [false, false]);
        }
        for bound in ["1P", "apple"] {
            assert_eq!(both("app", Test::NumberLess(Number::parse(bound))), [false, false]);
            assert_eq!(both("gone", Test::NumberAtMost(Number::parse(bound))), [false, false]);
        }
        assert_eq!(both("size", Test::NumberLess(None)), [false, false]);
    }

    proptest! {
        #[test]
        fn a_term_and_its_opposite_never_match_both(
            test in tests(),
            labels in prop::collection::btree_map("[ab]", "[a-z0-9]{0,3}", 0..3),
        ) {
            let matches = |invert| {
                LabelTerm { key: "a".into(), test: test.clone(), invert }.matches(&labels)
            };
            prop_assert!(!(matches(false) && matches(true)));
        }
    }
}
