//! The strict check of one file: unknown keys, wrong types and wrong forms, all reported at once.

use super::{Form, Key, Need, RecipeFile, Shape};
use crate::error::{Problem, in_words};
use crate::plan::document::{Item, Spot, Table, Value, nearest};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The section of a node document with what is sent to registries.
const CREDENTIALS: &str = "registry-credentials";

/// Compares a file with its keys. Keys that can be inherited are checked by [`missing`].
pub fn check(document: &Item, keys: &'static [Key], problems: &mut Vec<Problem>) {
    Checker { problems }.table(document, keys, "this file");
}

/// Reports the needed keys that are absent even after inheritance.
pub fn missing(document: &Item, keys: &'static [Key], problems: &mut Vec<Problem>) {
    missing_in(document, keys, "", problems);
}

fn missing_in(item: &Item, keys: &'static [Key], prefix: &str, problems: &mut Vec<Problem>) {
    for key in keys {
        let name = format!("{prefix}{}", key.name);
        match (item.get(key.name), &key.shape) {
            (None, _) if key.need == Need::Inherited && !is_misspelt(item, keys, key) => {
                let problem = Problem::new(format!("`{name}` is missing")).at(item.spot.place());
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

/// Whether an unknown key of this table is most likely a misspelt `key`, which is then not reported
/// as missing as well.
fn is_misspelt(item: &Item, keys: &'static [Key], key: &Key) -> bool {
    let names = || keys.iter().map(|key| key.name);
    let unknown = item
        .table()
        .into_iter()
        .flat_map(Table::keys)
        .filter(|found| names().all(|name| name != *found));
    unknown.into_iter().any(|found| nearest(found, names()) == Some(key.name))
}

struct Checker<'a> {
    problems: &'a mut Vec<Problem>,
}

impl Checker<'_> {
    fn value(&mut self, item: &Item, shape: &'static Shape, name: &str) {
        match (shape, &item.value) {
            (Shape::Text(form), Value::Text(text)) => {
                self.form(text, form, &item.spot, &format!("`{name}`"))
            }
            (Shape::Integer { min, max, .. }, Value::Integer { value, .. })
                if (min..=max).contains(&value) => {}
            (Shape::Number(numbers), Value::Integer { value, .. }) if numbers.contains(value) => {}
            (Shape::Word(words), Value::Text(text)) if words.contains(&text.as_str()) => {}
            (Shape::Mode, Value::Integer { value, radix: 8 }) if (0..=0o1777).contains(value) => {}
            (Shape::True, Value::Flag(true))
            | (Shape::Flag, Value::Flag(_))
            | (Shape::Date, Value::Date(_)) => {}
            (Shape::KernelValue, Value::Flag(_) | Value::Integer { .. } | Value::Text(_)) => {}
            // The files of a recipe may have parts of one section: they are checked together.
            (Shape::OfDocument, _) => {}
            (Shape::List(shape), Value::List(list)) => {
                list.iter().for_each(|item| self.value(item, shape, name))
            }
            (Shape::Table(keys), Value::Table(_)) => self.table(item, keys, name),
            (Shape::Choice(kinds), Value::Table(table)) => self.choice(item, table, kinds, name),
            (Shape::Map { key, value, removable }, Value::Table(table)) => {
                self.map(table, key, value, *removable, name)
            }
            _ => self.wrong(item, shape, name),
        }
    }

    fn wrong(&mut self, item: &Item, shape: &'static Shape, name: &str) {
        let problem = Problem::new(format!(
            "`{name}` must be {}, and is {}",
            shape.what(),
            found(&item.value)
        ));
        let hint = match (shape, &item.value) {
            (Shape::Mode, Value::Integer { value, radix: 10 }) => {
                Some(format!("write `0o{value}` if it is meant in octal"))
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
        let problem = problem.at(item.spot.place());
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

    fn table(&mut self, item: &Item, keys: &'static [Key], name: &str) {
        let Some(table) = item.table() else { return };
        for (found, entry) in table {
            match keys.iter().find(|key| key.name == found) {
                Some(key) => self.value(entry, &key.shape, key.name),
                None => self.unknown(found, entry, keys, name),
            }
        }
        let is_missing = |key: &&Key| {
            key.need == Need::Required
                && !table.contains_key(key.name)
                && !is_misspelt(item, keys, key)
        };
        for key in keys.iter().filter(is_missing) {
            let problem = Problem::new(format!("{} has no `{}`", quoted(name), key.name))
                .at(item.spot.place());
            self.problems.push(problem.cause(lower(key.about)));
        }
    }

    fn unknown(&mut self, found: &str, entry: &Item, keys: &'static [Key], name: &str) {
        let problem = Problem::new(format!("unknown key `{found}` in {}", quoted(name)))
            .at(entry.key.place());
        let problem = if name == key!(RecipeFile.binaries) {
            problem.cause(
                "`/bin` holds exactly seven files; everything else on the node runs as a pod",
            )
        } else if found == CREDENTIALS {
            problem.cause(
                "an image is public, and a recipe becomes part of one, so neither has passwords",
            )
        } else {
            problem
        };
        let hint = match nearest(found, keys.iter().map(|key| key.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if found == CREDENTIALS => {
                "put it into a node document, or run `cargo osctl explain registrycredentials`"
                    .to_owned()
            }
            None => format!("it has {}", in_words(keys.iter().map(|key| key.name))),
        };
        self.problems.push(problem.hint(hint));
    }

    fn choice(&mut self, item: &Item, table: &Table, kinds: &'static [&'static [Key]], name: &str) {
        let chosen = chosen(table, kinds);
        match chosen[..] {
            [kind] => self.table(item, kind, name),
            [] => {
                let problem = Problem::new(format!(
                    "{} needs one of {}",
                    quoted(name),
                    in_words(firsts(kinds))
                ));
                let stray = table.keys().find_map(|key| nearest(key, firsts(kinds)));
                let problem = problem.at(item.spot.place());
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
                        .at(item.spot.place()),
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
            if !(removable && matches!(entry.value, Value::Flag(false))) {
                self.value(entry, shape, key);
            }
        }
    }
}

/// The kinds of table of which this one has the first key. Where a kind has the first key of
/// another one among its further keys, only that kind is chosen.
pub fn chosen(table: &Table, kinds: &'static [&'static [Key]]) -> Vec<&'static [Key]> {
    let first =
        |kind: &&'static [Key]| kind.first().is_some_and(|key| table.contains_key(key.name));
    let candidates = || kinds.iter().copied().filter(first);
    let has = |kind: &[Key], name: &str| kind.iter().skip(1).any(|key| key.name == name);
    candidates().filter(|kind| !candidates().any(|other| has(other, kind[0].name))).collect()
}

fn firsts(kinds: &'static [&'static [Key]]) -> impl Iterator<Item = &'static str> {
    kinds.iter().filter_map(|kind| kind.first()).map(|key| key.name)
}

/// Whether `text` has this form.
pub fn matches(form: &'static Form, text: &str) -> bool {
    /// Each pattern is compiled once: files have many strings of few forms.
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
        Value::Date(date) => format!("the date `{date}`"),
        Value::List(_) => "a list".to_owned(),
        Value::Table(_) => "a table".to_owned(),
        Value::Other(what) => (*what).to_owned(),
    }
}

/// A table's name for messages.
fn quoted(name: &str) -> String {
    if name == "this file" { name.to_owned() } else { format!("`{name}`") }
}

/// A sentence as a cause: the first letter in lower case, no period.
fn lower(about: &str) -> String {
    let mut letters = about.trim_end_matches('.').chars();
    let keep = about.chars().nth(1).is_some_and(char::is_uppercase);
    match letters.next() {
        Some(first) if !keep => first.to_lowercase().chain(letters).collect(),
        Some(first) => std::iter::once(first).chain(letters).collect(),
        None => String::new(),
    }
}
