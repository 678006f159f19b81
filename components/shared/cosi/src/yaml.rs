//! How a person may write a list in YAML.

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
