//! JSON Schema (draft 2020-12) of the files that people write, for editors.

use super::{BoardFile, ComponentFile, Form, Key, Need, RecipeFile, ReleasesFile, Shape, Table};
use osbuild_document::SCHEMA;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The schema of the node document.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(SCHEMA).expect("a test reads the schema of the node document")
});
/// The key with the types of that schema, to which its sections refer.
const TYPES: &str = "$defs";

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

    /// The name of the kind.
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
            FileKind::Recipe => RecipeFile::KEYS,
            FileKind::Board => BoardFile::KEYS,
            FileKind::Component => ComponentFile::KEYS,
            FileKind::Releases => ReleasesFile::KEYS,
        }
    }
}

/// The schema of one kind of file, from the declarations that the strict reader uses.
///
/// A key that can be inherited is not required. A date is a string, as editors convert it to JSON.
pub fn schema(kind: FileKind) -> Value {
    let mut schema = table(kind.keys());
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(format!("osbuild {}", kind.name())));
    if kind == FileKind::Recipe {
        schema.insert(TYPES.to_owned(), DOCUMENT[TYPES].clone());
    }
    Value::Object(schema)
}

fn table(keys: &'static [Key]) -> Map<String, Value> {
    let property = |key: &'static Key| {
        let mut schema = match key.shape {
            Shape::OfDocument => of_document(key.name),
            _ => shape(&key.shape),
        };
        schema.insert("description".to_owned(), json!(key.about));
        (key.name.to_owned(), Value::Object(schema))
    };
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    let required: Vec<&str> =
        keys.iter().filter(|key| key.need == Need::Required).map(|key| key.name).collect();
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
        Shape::Integer { min, max, .. } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Shape::Number(numbers) => json!({ "enum": numbers }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Mode => json!({ "type": "integer", "minimum": 0, "maximum": 0o1777 }),
        Shape::True => json!({ "const": true }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Date => json!({ "type": "string", "format": "date" }),
        Shape::KernelValue => json!({ "type": ["boolean", "integer", "string"] }),
        Shape::OfDocument => unreachable!("only a key of a table is one of a node document"),
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

/// The schema of a key of the node document, or of its `[kubelet]`.
fn of_document(name: &str) -> Map<String, Value> {
    let properties = &DOCUMENT["properties"];
    let sections = [properties, &properties["kubelet"]["properties"]];
    let found = sections.into_iter().find_map(|section| section.get(name));
    object(found.unwrap_or_else(|| unreachable!("a node document has no `{name}`")).clone())
}

fn text(form: &Form) -> Value {
    json!({ "type": "string", "pattern": form.pattern })
}

fn map(key: &Form, value: Value) -> Value {
    json!({
        "type": "object",
        "propertyNames": { "pattern": key.pattern },
        "additionalProperties": value,
    })
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
    fn every_pattern_of_our_own_is_a_regular_expression() {
        let mut found = Vec::new();
        for kind in FileKind::ALL {
            let mut schema = schema(kind);
            // Those of a node document are for JSON Schema alone.
            schema.as_object_mut().unwrap().remove(TYPES);
            schema["properties"].as_object_mut().unwrap().remove("node");
            patterns(&schema, &mut found);
        }
        assert!(found.len() > 20);
        for pattern in found {
            regex_lite::Regex::new(&pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        }
    }
}
