//! How a person may write lists and numbers in YAML.

use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(untagged, expecting = "a word or a list of words is expected")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// Reads a list, or one word in the place of one.
pub fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMore::deserialize(deserializer)? {
        OneOrMore::One(word) => vec![word],
        OneOrMore::More(words) => words,
    })
}

/// Whether a number is that of a field that is missing.
pub fn is_zero(number: &u32) -> bool {
    *number == 0
}
