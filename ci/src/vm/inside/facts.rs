//! What the probe said, a fact a line: its name, and words behind it.

use std::fmt::Debug;

/// All of it.
pub struct Facts(pub String);

impl Facts {
    /// The words behind `name` in each fact of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
        self.0.lines().filter_map(move |line| {
            Some(line.strip_prefix(name)?.strip_prefix(' ')?.split(' ').collect())
        })
    }

    /// A number of the only fact of that name.
    pub fn number(&self, name: &str, index: usize) -> Result<u64, String> {
        let fact =
            self.all(name).next().ok_or_else(|| format!("the probe does not say `{name}`"))?;
        fact.get(index)
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("`{name}` has no number: {fact:?}"))
    }
}

/// What was found has to be what was promised.
pub fn expect<T: PartialEq + Debug>(found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("found {found:?}, not {wanted:?}")) }
}
