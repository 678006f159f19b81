//! The probe's report: one fact a line, which begins with the fact's name.

use std::fmt::Debug;

/// A whole report.
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
            self.all(name).next().ok_or_else(|| format!("the probe does not report `{name}`"))?;
        fact.get(index)
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("`{name}` has no number: {fact:?}"))
    }
}

/// Compares a value with the promised one.
pub fn expect<T: PartialEq + Debug>(found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("found {found:?}, not {wanted:?}")) }
}
