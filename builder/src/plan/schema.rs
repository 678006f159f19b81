//! JSON Schema (draft 2020-12) of the files that people write, for their editors.

use super::keys;
use super::shape::{Form, Key, Need, Shape};
use serde_json::{Map, Value, json};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `recipes/<name>.toml`
    Recipe,
    /// `boards/<name>.toml`
    Board,
    /// `components/<name>/component.toml`
    Component,
    /// `components/kubelet/releases.toml`
    Releases,
}

impl FileKind {
    /// All of them.
    pub const ALL: [FileKind; 4] =
        [FileKind::Recipe, FileKind::Board, FileKind::Component, FileKind::Releases];

    /// What such a file is called.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Recipe => "recipe",
            FileKind::Board => "board",
            FileKind::Component => "component",
            FileKind::Releases => "releases",
        }
    }

    fn keys(self) -> &'static [Key] {
        match self {
            FileKind::Recipe => keys::RECIPE,
            FileKind::Board => keys::BOARD,
            FileKind::Component => keys::COMPONENT,
            FileKind::Releases => keys::RELEASES,
        }
    }
}

/// The schema of one kind of file, from the same description that the strict reader has.
///
/// What may also come by inheritance is not required, and days are the strings that editors make of
/// them.
pub fn schema(kind: FileKind) -> Value {
    let mut schema = table(kind.keys());
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(format!("osbuild {}", kind.name())));
    Value::Object(schema)
}

fn table(keys: &'static [Key]) -> Map<String, Value> {
    let property = |key: &'static Key| {
        let mut schema = shape(&key.shape);
        schema.insert("description".to_owned(), json!(key.about));
        (key.name.to_owned(), Value::Object(schema))
    };
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    let required: Vec<&str> =
        keys.iter().filter(|key| key.need == Need::Here).map(|key| key.name).collect();
    let mut table = object(
        json!({ "type": "object", "properties": properties, "additionalProperties": false }),
    );
    if !required.is_empty() {
        table.insert("required".to_owned(), json!(required));
    }
    table
}

fn shape(shape_of: &'static Shape) -> Map<String, Value> {
    object(match shape_of {
        Shape::Text(form) => text(form),
        Shape::Integer { least, most, .. } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Shape::Number(numbers) => json!({ "enum": numbers }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Mode => json!({ "type": "integer", "minimum": 0, "maximum": 0o1777 }),
        Shape::True => json!({ "const": true }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Date => json!({ "type": "string", "format": "date" }),
        Shape::KernelValue => json!({ "type": ["boolean", "integer", "string"] }),
        Shape::List(each) => json!({ "type": "array", "items": shape(each) }),
        Shape::Table(keys) => return table(keys),
        Shape::Choice(kinds) => {
            json!({ "oneOf": kinds.iter().map(|keys| table(keys)).collect::<Vec<_>>() })
        }
        Shape::Map { key, value, removable: false } => map(key, Value::Object(shape(value))),
        Shape::Map { key, value, removable: true } => {
            map(key, json!({ "anyOf": [{ "const": false }, shape(value)] }))
        }
    })
}

fn text(form: &Form) -> Value {
    json!({ "type": "string", "pattern": form.pattern })
}

fn map(key: &Form, value: Value) -> Value {
    json!({ "type": "object", "propertyNames": { "pattern": key.pattern }, "additionalProperties": value })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => unreachable!("a schema is an object and not {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("pattern").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| patterns(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| patterns(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_pattern_is_a_regular_expression() {
        let mut found = Vec::new();
        FileKind::ALL.into_iter().for_each(|kind| patterns(&schema(kind), &mut found));
        assert!(found.len() > 20);
        for pattern in found {
            regex_lite::Regex::new(&pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        }
    }

    #[test]
    fn a_path_of_the_root_has_no_dots_to_climb_with() {
        let matches = |path: &str| super::super::walk::matches(&keys::ROOT_PATH, path);
        for right in ["/etc/passwd", "/etc/.hidden", "/usr/lib/a..b", "/opt/..data", "/a+b@1"] {
            assert!(matches(right), "{right}");
        }
        for wrong in ["/", "", "etc", "/etc/", "/etc/../x", "/etc/.", "/..", "/a//b", "/a b", "/ä"]
        {
            assert!(!matches(wrong), "{wrong}");
        }
    }
}
