//! All mistakes of a document at once, for the person who writes it.

mod lists;

use crate::Document;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error};

/// More of them help nobody.
const MAX_MISTAKES: usize = 50;

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The range of the text, in bytes.
    pub span: Range<usize>,
    /// The mistake, in one line.
    pub reason: String,
}

impl From<&Error> for Mistake {
    fn from(error: &Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        Mistake { span, reason: error.message().replace('\n', ", ") }
    }
}

impl Document {
    /// The mistakes of a document, at most 50; none if [`Document::parse`] accepts it. A text that
    /// is not TOML has only the mistakes of its syntax, an element of a list has one, and a section
    /// that has a wrong value is not searched for missing keys.
    pub fn mistakes(text: &str) -> Vec<Mistake> {
        let (mut table, errors) = DeTable::parse_recoverable(text);
        let mut mistakes: Vec<Mistake> =
            errors.iter().take(MAX_MISTAKES).map(Mistake::from).collect();
        if !mistakes.is_empty() {
            return mistakes;
        }
        // The reader stops at the first mistake, so it reads again without that entry.
        let mut removed = BTreeSet::new();
        while mistakes.len() < MAX_MISTAKES {
            let Some(mistake) = first_mistake(&table) else { break };
            let is_new = |mistake: &Mistake| {
                let lacks = |key: &String| mistake.reason == format!("missing field `{key}`");
                !removed.iter().any(lacks)
            };
            let wrong = lists::take_wrong_elements(&mut table, &mistake);
            if !wrong.is_empty() {
                mistakes.extend(wrong.into_iter().filter(is_new));
                continue;
            }
            let found = remove_from_table(table.get_mut(), &mistake.span);
            if is_new(&mistake) || found.is_none() {
                mistakes.push(mistake);
            }
            match found {
                Some(key) => removed.insert(key),
                None => break,
            };
        }
        mistakes.sort_by_key(|mistake| mistake.span.start);
        mistakes.truncate(MAX_MISTAKES);
        mistakes
    }
}

fn first_mistake(table: &Spanned<DeTable>) -> Option<Mistake> {
    let read = Document::deserialize(Deserializer::from(table.clone()));
    read.err().as_ref().map(Mistake::from)
}

/// Removes the innermost entry with this key or value, and returns its key.
fn remove_from_table(table: &mut DeTable, span: &Range<usize>) -> Option<String> {
    if let Some(key) = table.iter_mut().find_map(|(_, value)| remove_from_value(value, span)) {
        return Some(key);
    }
    let is_meant =
        |key: &Spanned<_>, value: &Spanned<_>| key.span() == *span || covers(value, span);
    let (key, _) = table.iter().find(|(key, value)| is_meant(key, value))?;
    let key = key.clone();
    table.remove(&key);
    Some(key.into_inner().into_owned())
}

fn remove_from_value(value: &mut Spanned<DeValue>, span: &Range<usize>) -> Option<String> {
    match value.get_mut() {
        DeValue::Table(table) => remove_from_table(table, span),
        DeValue::Array(array) => remove_from_array(array, span),
        _ => None,
    }
}

/// Removes an entry of a table in this array, or one of the array, which has no key.
fn remove_from_array(array: &mut DeArray, span: &Range<usize>) -> Option<String> {
    if let Some(key) = array.iter_mut().find_map(|value| remove_from_value(value, span)) {
        return Some(key);
    }
    let at = array.iter().position(|value| covers(value, span))?;
    let rest = std::mem::replace(array, DeArray::new()).into_iter().enumerate();
    *array = rest.filter(|(index, _)| *index != at).map(|(_, value)| value).collect();
    Some(String::new())
}

fn covers<T>(value: &Spanned<T>, span: &Range<usize>) -> bool {
    value.span().start <= span.start && span.end <= value.span().end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn expect(text: &str, expected: &[(&str, &str)]) {
        let mistakes = Document::mistakes(text);
        assert_eq!(mistakes.len(), expected.len(), "{mistakes:?}");
        for (mistake, (at, reason)) in mistakes.iter().zip(expected) {
            assert_eq!(&text[mistake.span.clone()], *at, "{mistake:?}");
            assert!(mistake.reason.contains(reason), "{mistake:?}");
        }
    }

    #[test]
    fn every_mistake_is_reported_at_its_place() {
        expect(
            "hostname = \"a b\"\n[kublet]\nlabels = 1\n[kubelet]\ntaints = [\"x\", \
             \"a:NoExecute\"]\nlabel = 2\n[kubelet.labels]\n\"a b\" = \"c\"\nok = \"no no\"\n",
            &[
                ("\"a b\"", "is not a host name"),
                ("kublet", "unknown field `kublet`"),
                ("\"x\"", "`x` is not a taint"),
                ("label", "unknown field `label`"),
                ("\"a b\"", "is not the key of a label"),
                ("\"no no\"", "is not the value of a label"),
            ],
        );
    }

    #[test]
    fn each_wrong_element_of_a_list_is_reported_at_its_value() {
        expect(
            "[[links]]\nlink = \"eth0\"\n[[links]]\nlink = \"eth1\"\nvlan = {id = 9999, parent = \
             \"eth0\"}\n[[links]]\nlink = \"eth2\"\nmtu = 1\n[[links]]\nlink = \"a b\"\nmtu = \
             1500\n[kubelet]\ntaints = [\"x\", \"a:NoExecute\", \"y\"]\n",
            &[
                ("\"eth0\"", "has none of `mtu`"),
                ("9999", "the `id` of a VLAN"),
                ("1", "an MTU"),
                ("\"a b\"", "`a b`"),
                ("\"x\"", "`x` is not a taint"),
                ("\"y\"", "`y` is not a taint"),
            ],
        );
    }

    #[test]
    fn elements_that_contradict_each_other_are_a_mistake_of_their_list() {
        expect(
            "[[addresses]]\nlink = \"eth0\"\naddress = \"192.0.2.1/24\"\n[[addresses]]\nlink = \
             \"eth0\"\naddress = \"192.0.2.1/24\"\n",
            &[("[[addresses]]", "set twice")],
        );
    }

    #[test]
    fn a_wrong_value_is_not_reported_as_missing_too() {
        expect("[cluster]\nserver = \"a\"\n", &[("\"a\"", "`https` URL")]);
        expect("[[static-pods]]\nname = \"Web\"\n", &[("\"Web\"", "`Web` is not a name")]);
        expect(
            "[cluster]\nserver = \"a\"\ncertificate-authority = \"b\"\n",
            &[("\"a\"", "`https` URL"), ("\"b\"", "certificates in PEM")],
        );
    }

    #[test]
    fn all_errors_of_the_syntax_are_reported() {
        let mistakes = Document::mistakes("hostname = \n[kubelet\nlabels = {}\n");
        assert!(mistakes.len() >= 2, "{mistakes:?}");
    }

    #[test]
    fn the_number_of_mistakes_is_limited() {
        let text: String = (0..200).map(|number| format!("key-{number} = 1\n")).collect();
        assert_eq!(Document::mistakes(&text).len(), MAX_MISTAKES);
    }

    proptest! {
        #[test]
        fn what_has_no_mistakes_is_accepted(
            lines in prop::collection::vec(
                prop::sample::select(vec![
                    "[kubelet]", "[cluster]", "[kubelet.labels]", "server = \"https://a\"",
                    "a = \"b\"", "taints = [\"a\", \"b:NoExecute\"]", "token = \"x\"",
                    "hostname = \"a\"", "provider-id = 7", "[[kubelet]]", "x.y = {z = [1]}", "[",
                ]),
                0..8,
            ),
            noise in "\\PC{0,20}",
        ) {
            for text in [lines.join("\n"), noise] {
                let mistakes = Document::mistakes(&text);
                prop_assert_eq!(mistakes.is_empty(), Document::parse(&text).is_ok());
                for mistake in mistakes {
                    prop_assert!(text.get(mistake.span.clone()).is_some(), "{:?}", mistake);
                }
            }
        }
    }
}
