//! Parts of a node document that stand in other files, as one document. Each value of its text has
//! the place where it was written.

use super::{Item, Spot, Table, Value};
use crate::error::Problem;
use crate::plan::print::{key_text, quote};
use std::ops::Range;

/// A value in TOML, on one line.
pub fn in_toml(item: &Item) -> String {
    let mut draft = Draft::default();
    draft.value(item);
    draft.text
}

/// The document.
#[derive(Default)]
pub struct Draft {
    /// Its text.
    pub text: String,
    /// Ranges of the text, with the places of what they hold. An outer range follows those in it.
    places: Vec<(Range<usize>, Spot)>,
    /// Values that no document has.
    pub problems: Vec<Problem>,
    /// Ranges of the text with a number in the place of such a value.
    replaced: Vec<Range<usize>>,
}

impl Draft {
    /// Adds the part with this key: `kubelet.labels`.
    pub fn add(&mut self, key: &str, item: &Item) {
        let start = self.text.len();
        self.text.push_str(key);
        self.places.push((start..self.text.len(), item.key.clone()));
        self.text.push_str(" = ");
        self.value(item);
        self.text.push('\n');
    }

    /// The place of what stands in `range` of the text: the innermost one.
    pub fn spot(&self, range: &Range<usize>) -> Option<&Spot> {
        let covers = |held: &Range<usize>| held.start <= range.start && range.end <= held.end;
        self.places.iter().find(|(held, _)| covers(held)).map(|(_, spot)| spot)
    }

    /// Whether a value that no document has stands in this range, and nothing else.
    pub fn is_replaced(&self, range: &Range<usize>) -> bool {
        self.replaced.contains(range)
    }

    fn value(&mut self, item: &Item) {
        let start = self.text.len();
        match &item.value {
            Value::Text(text) => self.text.push_str(&quote(text)),
            Value::Integer { value, .. } => self.text.push_str(&value.to_string()),
            Value::Flag(flag) => self.text.push_str(&flag.to_string()),
            Value::Date(date) => self.text.push_str(&date.to_string()),
            Value::List(list) => self.list(list),
            Value::Table(table) => self.table(table),
            Value::Other(what) => {
                let problem = Problem::new(format!("no setting of a node is {what}"));
                self.problems.push(problem.at(item.spot.place()));
                self.text.push('0');
                self.replaced.push(start..self.text.len());
            }
        }
        self.places.push((start..self.text.len(), item.spot.clone()));
    }

    fn list(&mut self, list: &[Item]) {
        self.text.push('[');
        for (index, item) in list.iter().enumerate() {
            self.text.push_str(if index == 0 { "" } else { ", " });
            self.value(item);
        }
        self.text.push(']');
    }

    fn table(&mut self, table: &Table) {
        self.text.push('{');
        for (index, (key, item)) in table.iter().enumerate() {
            self.text.push_str(if index == 0 { " " } else { ", " });
            let start = self.text.len();
            self.text.push_str(&key_text(key));
            self.places.push((start..self.text.len(), item.key.clone()));
            self.text.push_str(" = ");
            self.value(item);
        }
        self.text.push_str(if table.is_empty() { "}" } else { " }" });
    }
}
