//! Tables of routes.

use std::fmt;

use super::options::number;
use crate::Refusal;

/// The table that packets use unless a rule names another one (`RT_TABLE_MAIN`).
const MAIN: u32 = 254;
/// The table of the node's own addresses, which the kernel alone writes (`RT_TABLE_LOCAL`).
const LOCAL: u32 = 255;

/// A table of routes, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteTable(u32);

impl RouteTable {
    /// The table with this number.
    ///
    /// # Errors
    /// It is 0, which is no table, or that of the node's own addresses.
    pub fn new(number: u32) -> Result<Self, Refusal> {
        match number {
            0 => Err(Refusal::malformed("the `table` of routes is 1 to 4294967295")),
            LOCAL => Err(Refusal::malformed(format!(
                "the table {LOCAL} has the node's own addresses, which only the kernel writes"
            ))),
            _ => Ok(Self(number)),
        }
    }

    /// Reads a number as everybody writes it.
    pub(super) fn parse(word: &str) -> Result<Self, Refusal> {
        let refuse = || Refusal::malformed(format!("`{word}` is not the number of a table"));
        Self::new(number(word).ok_or_else(refuse)?)
    }

    /// Reads the words `table NUMBER` at the start of a text, and returns the text behind them.
    /// Without them it is the main table.
    pub(super) fn split(text: &str) -> Result<(Self, &str), Refusal> {
        let Some(behind) = text.strip_prefix("table ") else { return Ok((Self::default(), text)) };
        let (word, rest) = behind.split_once(' ').unwrap_or((behind, ""));
        match Self::parse(word)? {
            table if table.is_main() => {
                Err(Refusal::malformed(format!("a route names no table for {MAIN}")))
            }
            table => Ok((table, rest)),
        }
    }

    /// Whether packets use it unless a rule names another one.
    pub fn is_main(self) -> bool {
        self.0 == MAIN
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl Default for RouteTable {
    fn default() -> Self {
        Self(MAIN)
    }
}

impl fmt::Display for RouteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
