//! A TOML file as a tree in which every key and value knows where it was written.

use super::date::Date;
use super::origin::Origin;
use crate::error::{Place, Problem};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};
use toml::value::Datetime;

/// A file with its text.
#[derive(Debug)]
pub(super) struct Text {
    /// Its path in the project.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// A stretch of a file.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    text: Arc<Text>,
    span: Range<usize>,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Where it stands.
    pub spot: Spot,
    /// What it is.
    pub value: Value,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Integer {
        value: i64,
        radix: u32,
    },
    Flag(bool),
    Date(Date),
    List(Vec<Node>),
    Table(Table),
    /// What no key takes: a number with a fraction, a time of day, a number that does not fit.
    Other(&'static str),
}

/// Entries by key.
pub(super) type Table = BTreeMap<String, Entry>;

/// A key's place and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where the key stands.
    pub key: Spot,
    /// Its value.
    pub node: Node,
}

impl Spot {
    /// A stretch of a file, by bytes.
    pub fn new(text: &Arc<Text>, span: Range<usize>) -> Self {
        Spot { text: text.clone(), span }
    }

    /// The file that it is in.
    pub fn file(&self) -> &str {
        &self.text.name
    }

    /// The whole text of the file that it is in.
    pub fn text(&self) -> &str {
        &self.text.text
    }

    /// Its bytes in that text.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The line for an error message. A stretch of several lines is cut at the end of the first.
    pub fn place(&self) -> Place {
        let text = &self.text.text;
        let start = floor(text, self.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor(text, self.span.end.clamp(start, line_end));
        Place {
            file: self.text.name.clone(),
            line: self.line(),
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end].chars().count().max(1),
            // One column a character keeps the caret under what it points at.
            text: text[line_start..line_end].trim_end_matches('\r').replace('\t', " "),
        }
    }

    /// The line for a printed plan.
    pub fn origin(&self) -> Origin {
        Origin { file: self.text.name.clone(), line: self.line() }
    }

    fn line(&self) -> usize {
        self.text.text[..floor(&self.text.text, self.span.start)].matches('\n').count() + 1
    }
}

/// The nearest border of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl Node {
    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The number, if it is one.
    pub fn integer(&self) -> Option<i64> {
        if let Value::Integer { value, .. } = self.value { Some(value) } else { None }
    }

    /// The day, if it is one.
    pub fn date(&self) -> Option<Date> {
        if let Value::Date(date) = self.value { Some(date) } else { None }
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.table()?.get(key).map(|entry| &entry.node)
    }

    /// The string of `key`, if this is a table that has it.
    pub fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// The elements of the list, none if it is not one.
    pub fn list(&self) -> &[Node] {
        if let Value::List(list) = &self.value { list } else { &[] }
    }

    /// The entries of the table of `key`, none if there is no such table.
    pub fn entries_of(&self, key: &str) -> impl Iterator<Item = (&String, &Entry)> {
        self.get(key).and_then(Node::table).into_iter().flatten()
    }
}

/// Reads a file as far as it can be read. All errors of syntax are added to `problems`.
pub(super) fn parse(text: &Arc<Text>, problems: &mut Vec<Problem>) -> Node {
    let (table, errors) = DeTable::parse_recoverable(&text.text);
    problems.extend(errors.into_iter().map(|error| {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().replace('\n', ", ");
        Problem::new(message.trim_end_matches(", expected nothing"))
            .at(Spot::new(text, span).place())
    }));
    Node { spot: Spot::new(text, 0..0), value: Value::Table(convert_table(text, table.get_ref())) }
}

fn convert_table(text: &Arc<Text>, table: &DeTable<'_>) -> Table {
    let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        (name.to_string(), Entry { key: Spot::new(text, key.span()), node: convert(text, value) })
    };
    table.iter().map(entry).collect()
}

fn convert(text: &Arc<Text>, node: &Spanned<DeValue<'_>>) -> Node {
    let value = match node.get_ref() {
        DeValue::String(string) => Value::Text(string.to_string()),
        DeValue::Integer(integer) => convert_integer(integer),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(Datetime { date: Some(date), time: None, offset: None }) => {
            Value::Date(Date { year: date.year, month: date.month, day: date.day })
        }
        DeValue::Datetime(_) => Value::Other("a time of day"),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Array(list) => Value::List(list.iter().map(|node| convert(text, node)).collect()),
        DeValue::Table(table) => Value::Table(convert_table(text, table)),
    };
    Node { spot: Spot::new(text, node.span()), value }
}

fn convert_integer(integer: &DeInteger<'_>) -> Value {
    match i64::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(value) => Value::Integer { value, radix: integer.radix() },
        Err(_) => Value::Other("a number beyond 64 bits"),
    }
}
