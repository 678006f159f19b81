//! Lists of one kind of word, such as the addresses of name servers.

use std::fmt;
use std::net::IpAddr;

use crate::Refusal;

/// An entry of a list.
pub trait Entry: Sized {
    /// The plural of the entry's name, for errors.
    const PLURAL: &'static str;

    /// Reads one word.
    ///
    /// # Errors
    /// It is no such entry.
    fn parse(word: &str) -> Result<Self, Refusal>;
}

/// At least one entry, and at most `MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T: Entry, const MAX: usize> List<T, MAX> {
    /// Reads the words.
    ///
    /// # Errors
    /// There are none or too many of them, or one is no entry.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, Refusal> {
        let entries: Vec<T> = words.into_iter().map(T::parse).collect::<Result<_, _>>()?;
        match (1..=MAX).contains(&entries.len()) {
            true => Ok(Self(entries)),
            false => Err(Refusal::malformed(format!("there are 1 to {MAX} {}", T::PLURAL))),
        }
    }

    /// The entries in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T: fmt::Display, const MAX: usize> fmt::Display for List<T, MAX> {
    /// Writes the words with one space between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, others) = self.0.split_first().expect("a list has an entry");
        first.fmt(f)?;
        others.iter().try_for_each(|entry| write!(f, " {entry}"))
    }
}

/// The address of a name server.
impl Entry for IpAddr {
    const PLURAL: &'static str = "name servers";

    fn parse(word: &str) -> Result<Self, Refusal> {
        word.parse().map_err(|_| Refusal::malformed(format!("`{word}` is not an IP address")))
    }
}
