//! The strict reading of one file: unknown keys, wrong types and wrong forms, all of them at once.

use super::document::{Entry, Node, Spot, Table, Value};
use super::nearest::nearest;
use super::shape::{Form, Key, Need, Shape};
use crate::error::{Problem, in_words};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Compares a file with its keys. What is only needed after inheritance is looked at by
/// [`missing`].
pub(super) fn walk(document: &Node, keys: &'static [Key], problems: &mut Vec<Problem>) {
    Walk { problems }.table(document, keys, "this file");
}

/// Finds what is needed and is not there even after inheritance.
pub(super) fn missing(document: &Node, keys: &'static [Key], problems: &mut Vec<Problem>) {
    missing_in(document, keys, "", problems);
}

fn missing_in(node: &Node, keys: &'static [Key], prefix: &str, problems: &mut Vec<Problem>) {
    for key in keys {
        let name = format!("{prefix}{}", key.name);
        match (node.get(key.name), &key.shape) {
            (None, _) if key.need == Need::Inherited && !is_misspelt(node, keys, key) => {
                let problem = Problem::new(format!("`{name}` is missing")).at(node.spot.place());
                problems.push(problem.cause(format!(
                    "neither this file nor one that it inherits from has it: {}",
                    lower(key.about)
                )));
            }
            (Some(inner), Shape::Table(keys)) => {
                missing_in(inner, keys, &format!("{name}."), problems)
            }
            _ => {}
        }
    }
}

/// Whether an unknown key of this table is most likely a slip of `key`, which is then not said to
/// be missing as well.
fn is_misspelt(node: &Node, keys: &'static [Key], key: &Key) -> bool {
    let names = || keys.iter().map(|key| key.name);
    let unknown = node
        .table()
        .into_iter()
        .flat_map(Table::keys)
        .filter(|found| names().all(|name| name != *found));
    unknown.into_iter().any(|found| nearest(found, names()) == Some(key.name))
}

struct Walk<'a> {
    problems: &'a mut Vec<Problem>,
}

impl Walk<'_> {
    fn value(&mut self, node: &Node, shape: &'static Shape, name: &str) {
        match (shape, &node.value) {
            (Shape::Text(form), Value::Text(text)) => {
                self.form(text, form, &node.spot, &format!("`{name}`"))
            }
            (Shape::Integer { least, most, .. }, Value::Integer { value, .. })
                if (least..=most).contains(&value) => {}
            (Shape::Number(numbers), Value::Integer { value, .. }) if numbers.contains(value) => {}
            (Shape::Word(words), Value::Text(text)) if words.contains(&text.as_str()) => {}
            (Shape::Mode, Value::Integer { value, radix: 8 }) if (0..=0o1777).contains(value) => {}
            (Shape::True, Value::Flag(true))
            | (Shape::Flag, Value::Flag(_))
            | (Shape::Date, Value::Date(_)) => {}
            (Shape::KernelValue, Value::Flag(_) | Value::Integer { .. } | Value::Text(_)) => {}
            (Shape::List(shape), Value::List(list)) => {
                list.iter().for_each(|node| self.value(node, shape, name))
            }
            (Shape::Table(keys), Value::Table(_)) => self.table(node, keys, name),
            (Shape::Choice(kinds), Value::Table(table)) => self.choice(node, table, kinds, name),
            (Shape::Map { key, value, removable }, Value::Table(table)) => {
                self.map(table, key, value, *removable, name)
            }
            _ => self.wrong(node, shape, name),
        }
    }

    fn wrong(&mut self, node: &Node, shape: &'static Shape, name: &str) {
        let problem = Problem::new(format!(
            "`{name}` must be {}, and is {}",
            shape.what(),
            found(&node.value)
        ));
        let hint = match (shape, &node.value) {
            (Shape::Mode, Value::Integer { value, radix: 10 }) => {
                Some(format!("write `0o{value}` if you meant it in octal"))
            }
            (Shape::Text(form), Value::Integer { value, .. })
                if matches(form, &value.to_string()) =>
            {
                Some(format!("write `\"{value}\"`"))
            }
            (Shape::Word(words), Value::Text(text)) => nearest(text, words.iter().copied())
                .map(|word| format!("did you mean `\"{word}\"`?")),
            (Shape::Date, Value::Text(text)) => Some(format!("write `{text}` without quotes")),
            _ => None,
        };
        let problem = problem.at(node.spot.place());
        self.problems.push(Problem { hint, ..problem });
    }

    fn form(&mut self, text: &str, form: &'static Form, spot: &Spot, what: &str) {
        if !matches(form, text) {
            self.problems.push(
                Problem::new(format!("{what} must be {}, and is {text:?}", form.what))
                    .at(spot.place()),
            );
        }
    }

    fn table(&mut self, node: &Node, keys: &'static [Key], name: &str) {
        let Some(table) = node.table() else { return };
        for (found, entry) in table {
            match keys.iter().find(|key| key.name == found) {
                Some(key) => self.value(&entry.node, &key.shape, key.name),
                None => self.unknown(found, entry, keys, name),
            }
        }
        let is_missing = |key: &&Key| {
            key.need == Need::Here && !table.contains_key(key.name) && !is_misspelt(node, keys, key)
        };
        for key in keys.iter().filter(is_missing) {
            let problem = Problem::new(format!("{} has no `{}`", quoted(name), key.name))
                .at(node.spot.place());
            self.problems.push(problem.cause(lower(key.about)));
        }
    }

    fn unknown(&mut self, found: &str, entry: &Entry, keys: &'static [Key], name: &str) {
        let problem = Problem::new(format!("unknown key `{found}` in {}", quoted(name)))
            .at(entry.key.place());
        let problem = match name {
            "binaries" => problem.cause(
                "`/bin` holds exactly seven files; everything else on the node runs as a pod",
            ),
            _ => problem,
        };
        let hint = match nearest(found, keys.iter().map(|key| key.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it has {}", in_words(keys.iter().map(|key| key.name))),
        };
        self.problems.push(problem.hint(hint));
    }

    fn choice(&mut self, node: &Node, table: &Table, kinds: &'static [&'static [Key]], name: &str) {
        let first =
            |kind: &&&'static [Key]| kind.first().is_some_and(|key| table.contains_key(key.name));
        // A kind may have what another kind begins with among its own keys: then it is the one that
        // is meant.
        let has = |kind: &[Key], name: &str| kind.iter().skip(1).any(|key| key.name == name);
        let is_part = |kind: &&&'static [Key]| {
            kind.first()
                .is_some_and(|begin| kinds.iter().filter(first).any(|other| has(other, begin.name)))
        };
        let chosen: Vec<_> = kinds.iter().filter(first).filter(|kind| !is_part(kind)).collect();
        match chosen[..] {
            [kind] => self.table(node, kind, name),
            [] => {
                let problem = Problem::new(format!(
                    "{} needs one of {}",
                    quoted(name),
                    in_words(firsts(kinds))
                ));
                let stray = table.keys().find_map(|key| nearest(key, firsts(kinds)));
                let problem = problem.at(node.spot.place());
                self.problems.push(Problem {
                    hint: stray.map(|near| format!("did you mean `{near}`?")),
                    ..problem
                });
            }
            _ => {
                let both =
                    in_words(chosen.iter().filter_map(|kind| kind.first()).map(|key| key.name));
                self.problems.push(
                    Problem::new(format!("{} can have only one of {both}", quoted(name)))
                        .at(node.spot.place()),
                );
            }
        }
    }

    fn map(
        &mut self,
        table: &Table,
        form: &'static Form,
        shape: &'static Shape,
        removable: bool,
        name: &str,
    ) {
        for (key, entry) in table {
            self.form(key, form, &entry.key, &format!("a key of `{name}`"));
            if !(removable && matches!(entry.node.value, Value::Flag(false))) {
                self.value(&entry.node, shape, key);
            }
        }
    }
}

fn firsts(kinds: &'static [&'static [Key]]) -> impl Iterator<Item = &'static str> {
    kinds.iter().filter_map(|kind| kind.first()).map(|key| key.name)
}

/// Whether `text` has this form.
pub(super) fn matches(form: &'static Form, text: &str) -> bool {
    /// A pattern is compiled once, as each file has many strings of few forms.
    static COMPILED: Mutex<BTreeMap<&str, Regex>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let compile = || Regex::new(form.pattern).expect("a test compiles every pattern");
    compiled.entry(form.pattern).or_insert_with(compile).is_match(text)
}

fn found(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("the string {text:?}"),
        Value::Integer { value, radix: 8 } => format!("the number `0o{value:o}`"),
        Value::Integer { value, .. } => format!("the number `{value}`"),
        Value::Flag(flag) => format!("`{flag}`"),
        Value::Date(date) => format!("the day `{date}`"),
        Value::List(_) => "a list".to_owned(),
        Value::Table(_) => "a table".to_owned(),
        Value::Other(what) => (*what).to_owned(),
    }
}

fn quoted(name: &str) -> String {
    if name == "this file" { name.to_owned() } else { format!("`{name}`") }
}

/// A sentence as a cause: small first letter, no period.
fn lower(about: &str) -> String {
    let mut letters = about.trim_end_matches('.').chars();
    let keep = about.chars().nth(1).is_some_and(char::is_uppercase);
    match letters.next() {
        Some(first) if !keep => first.to_lowercase().chain(letters).collect(),
        Some(first) => std::iter::once(first).chain(letters).collect(),
        None => String::new(),
    }
}
