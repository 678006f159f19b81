//! How a person may write lists and numbers in YAML.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

#[derive(Deserialize)]
#[serde(untagged, expecting = "a word or a list of words is expected")]
enum OneOrMore {
    One(Word),
    More(Vec<Word>),
}

/// A word, which may be a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a word is expected")]
enum Word {
    Number(u64),
    Text(String),
}

impl Word {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// Reads a list, or one word in the place of one.
pub fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMore::deserialize(deserializer)? {
        OneOrMore::One(word) => vec![word.text()],
        OneOrMore::More(words) => words.into_iter().map(Word::text).collect(),
    })
}

/// Whether a number is that of a field that is missing.
pub fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// Reads a secret. The mistake does not show what is there in its place.
pub fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
    }

    deserializer.deserialize_str(Text).map_err(|_| D::Error::custom("a secret is a text in quotes"))
}
