//! A TOML file as a tree in which every key and value knows where it is written.

mod nearest;
mod node;
mod origin;
mod part;
mod secrets;

pub use nearest::nearest;
pub use node::{node_document_problems, read_parts};
pub use origin::{COMMAND_LINE, Origin, Origins};
pub use part::in_toml;

use super::Date;
use crate::error::{Error, Kind, Place, Problem, Result};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};
use toml::value::Datetime;

/// A file with its text.
#[derive(Debug)]
pub struct Text {
    /// Its path in the project.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// A range of a file.
#[derive(Clone, Debug)]
pub struct Spot {
    text: Arc<Text>,
    span: Range<usize>,
}

/// A value with the place where it is written.
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The place of its key; of the value itself in a list, and for a whole file.
    pub key: Spot,
    /// The place of the value.
    pub spot: Spot,
    /// The value.
    pub value: T,
}

/// A value of a file, before it is read into a type.
pub type Item = Located<Value>;

/// A value of TOML.
#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    Integer {
        value: i64,
        radix: u32,
    },
    Flag(bool),
    Date(Date),
    List(Vec<Item>),
    Table(Table),
    /// A value that no key takes: a fraction, a time of day, an integer beyond 64 bits.
    Other(&'static str),
}

/// Reads a file into a type that checks itself. `name` is for messages.
///
/// # Errors
/// The text is not such a file. The error is of this kind.
pub fn parse_as<T: DeserializeOwned>(kind: Kind, name: &str, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let source = Arc::new(Text { name: name.to_owned(), text: text.to_owned() });
        let place = Spot::new(&source, error.span().unwrap_or(0..0)).place();
        let why = error.message().lines().next().unwrap_or("the file is invalid");
        Error::many(kind, vec![Problem::new(why).at(place)])
    })
}

/// Items by key.
pub type Table = BTreeMap<String, Item>;

impl Spot {
    /// A range of a file, in bytes.
    pub fn new(text: &Arc<Text>, span: Range<usize>) -> Self {
        Spot { text: text.clone(), span }
    }

    /// The path of its file.
    pub fn file(&self) -> &str {
        &self.text.name
    }

    /// The whole text of its file.
    pub fn text(&self) -> &str {
        &self.text.text
    }

    /// Its range in that text, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The line for an error message, without secrets. A range of several lines ends with the first
    /// one.
    pub fn place(&self) -> Place {
        let text = &secrets::masked(&self.text.text);
        let start = floor(text, self.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor(text, self.span.end.clamp(start, line_end));
        Place {
            file: self.text.name.clone(),
            line: self.line(),
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end].chars().count().max(1),
            // A tab as one column keeps the caret below the character that it points at.
            text: text[line_start..line_end].trim_end_matches('\r').replace('\t', " "),
        }
    }

    /// Whether it begins inside a secret.
    pub fn is_secret(&self) -> bool {
        let at = self.span.start;
        secrets::masked(&self.text.text).as_bytes().get(at) != self.text.text.as_bytes().get(at)
    }

    /// The line for a printed plan.
    pub fn origin(&self) -> Origin {
        Origin { file: self.text.name.clone(), line: self.line() }
    }

    fn line(&self) -> usize {
        self.text.text[..floor(&self.text.text, self.span.start)].matches('\n').count() + 1
    }
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Item {
    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The number, if it is one.
    pub fn integer(&self) -> Option<i64> {
        if let Value::Integer { value, .. } = self.value { Some(value) } else { None }
    }

    /// The truth value, if it is one.
    pub fn flag(&self) -> Option<bool> {
        if let Value::Flag(flag) = self.value { Some(flag) } else { None }
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Item> {
        self.table()?.get(key)
    }
}

/// Parses a file as far as possible. All syntax errors are added to `problems`.
pub fn parse(text: &Arc<Text>, problems: &mut Vec<Problem>) -> Item {
    let (table, errors) = DeTable::parse_recoverable(&text.text);
    problems.extend(errors.into_iter().map(|error| {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().replace('\n', ", ");
        Problem::new(message.trim_end_matches(", expected nothing"))
            .at(Spot::new(text, span).place())
    }));
    let start = Spot::new(text, 0..0);
    let value = Value::Table(convert_table(text, table.get_ref()));
    Located { key: start.clone(), spot: start, value }
}

fn convert_table(text: &Arc<Text>, table: &DeTable<'_>) -> Table {
    let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        let spot = Spot::new(text, value.span());
        let value = convert(text, value);
        (name.to_string(), Located { key: Spot::new(text, key.span()), spot, value })
    };
    table.iter().map(entry).collect()
}

fn convert(text: &Arc<Text>, value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(string) => Value::Text(string.to_string()),
        DeValue::Integer(integer) => convert_integer(integer),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(Datetime { date: Some(date), time: None, offset: None }) => {
            Value::Date(Date { year: date.year, month: date.month, day: date.day })
        }
        DeValue::Datetime(_) => Value::Other("a time of day"),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Array(list) => Value::List(list.iter().map(|item| element(text, item)).collect()),
        DeValue::Table(table) => Value::Table(convert_table(text, table)),
    }
}

fn element(text: &Arc<Text>, value: &Spanned<DeValue<'_>>) -> Item {
    let spot = Spot::new(text, value.span());
    Located { key: spot.clone(), spot, value: convert(text, value) }
}

fn convert_integer(integer: &DeInteger<'_>) -> Value {
    match i64::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(value) => Value::Integer { value, radix: integer.radix() },
        Err(_) => Value::Other("a number beyond 64 bits"),
    }
}
