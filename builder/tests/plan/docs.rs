//! The tables of keys in the READMEs, compared with the declarations.

use crate::shipped;
use osbuild::plan::{FileKind, schema};
use serde_json::Value;
use std::collections::BTreeSet;

/// The rows of the table whose first column has this heading: the names in backticks, and the text
/// of the row.
fn rows(path: &str, heading: &str) -> Vec<(Vec<String>, String)> {
    let project = shipped();
    let text = std::str::from_utf8(&project.files[path]).unwrap();
    let table = text.split(&format!("\n| {heading} |")).nth(1).expect("the table is there");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let (names, text) = row[1..].split_once('|').unwrap();
        let names = names.split('`').skip(1).step_by(2);
        let plain = |name: &str| name.trim_matches(['[', ']']).to_owned();
        (names.map(plain).collect(), text.to_owned())
    })
    .collect()
}

/// The declaration of a key such as `kernel.options`.
fn declared<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    name.split('.').try_fold(schema, |table, key| table.get("properties")?.get(key))
}

/// Compares a table with the keys of a kind of file.
#[track_caller]
fn compare(path: &str, heading: &str, kind: FileKind) {
    let (rows, schema) = (rows(path, heading), schema(kind));
    let mut missing: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    for (names, text) in &rows {
        for name in names {
            let key = declared(&schema, name);
            let key = key.unwrap_or_else(|| panic!("{path} has `{name}`, which is not a key"));
            missing.remove(name.split('.').next().unwrap());
            if let Some((min, max)) = range(text) {
                assert_eq!((&key["minimum"], &key["maximum"]), (&min, &max), "{path}: `{name}`");
            }
        }
    }
    assert!(missing.is_empty(), "{path} lacks {missing:?}");
}

/// The range of a row with a text such as `34 to 1024`.
fn range(text: &str) -> Option<(Value, Value)> {
    let words: Vec<&str> = text.split([' ', ',', ';', '.']).collect();
    let number = |word: &str| word.parse::<i64>().ok().map(Value::from);
    words.windows(3).find_map(|three| match three {
        [min, "to", max] => Some((number(min)?, number(max)?)),
        _ => None,
    })
}

#[test]
fn the_table_of_boards_has_every_key_and_its_range() {
    compare("boards/README.md", "key", FileKind::Board);
    let ranges =
        rows("boards/README.md", "key").iter().filter(|row| range(&row.1).is_some()).count();
    assert!(ranges > 2, "the ranges are written in another way");
}

#[test]
fn the_table_of_recipes_has_every_section() {
    compare("recipes/README.md", "section", FileKind::Recipe);
}
