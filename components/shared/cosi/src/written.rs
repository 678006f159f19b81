//! The texts of a spec that a person wrote in YAML. Of a number or a boolean only its value is
//! known, and not how it was written, so `osd` and its clients refuse what would not stay as it is.

use serde_json::{Number, Value};

/// Why a text in the spec would not stay as it is written, if one would not. `secrets` are the
/// paths of fields that are secret.
pub fn text_mistake<S: AsRef<str>>(
    spec: &Value,
    secrets: impl IntoIterator<Item = S>,
) -> Option<String> {
    // A number has lost its form, such as a leading `+`.
    let secret = secrets.into_iter().find(|field| !is_text(spec, field.as_ref()));
    if let Some(field) = secret {
        return Some(format!("`{}` is secret: a text in quotes", field.as_ref()));
    }
    let number = fraction(spec)?;
    Some(format!("no field takes a number such as {number}: write a text in quotes"))
}

/// Whether the field with this path has a text, if it is there: in a list, each of them.
fn is_text(value: &Value, path: &str) -> bool {
    if let Value::Array(all) = value {
        return all.iter().all(|one| is_text(one, path));
    }
    let (field, rest) = path.split_once('.').unwrap_or((path, ""));
    match (value.get(field), rest) {
        (None, _) => true,
        (Some(found), "") => found.is_string(),
        (Some(found), rest) => is_text(found, rest),
    }
}

/// The first number in the value that is not whole. `1.10` is `1.1` in it.
fn fraction(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) => number.is_f64().then_some(number),
        Value::Array(all) => all.iter().find_map(fraction),
        Value::Object(fields) => fields.values().find_map(fraction),
        _ => None,
    }
}
