//! How a person may write lists and numbers in YAML.

use serde::{Deserialize, Deserializer};

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
pub fn is_zero(number: &u32) -> bool {
    *number == 0
}
