//! The number of entries of a list. `init` holds no more of one kind.

use serde::de::Error;

/// The entries, if there are at most `max`.
pub fn bounded<T, E: Error>(entries: Vec<T>, max: usize, kind: &str) -> Result<Vec<T>, E> {
    match entries.len() <= max {
        true => Ok(entries),
        false => Err(E::custom(too_many(max, kind))),
    }
}

/// The reason why more entries are refused.
pub fn too_many(max: usize, kind: &str) -> String {
    format!("there are at most {max} {kind}")
}
