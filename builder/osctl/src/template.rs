//! Templates of `-o jsonpath=`: text with queries in braces, as kubectl has them. The queries are
//! those of RFC 9535, without its functions.

use crate::error::printable;
use crate::resource::escaped_json;
use serde_json::Value;
use serde_json_path::JsonPath;
use std::fmt::{self, Display};
use std::str::FromStr;

/// A template.
#[derive(Clone, Debug)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Query(JsonPath),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake(String);

impl Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

impl Template {
    /// Fills the template with a value. Returns one line, without characters that control a
    /// terminal. Spaces separate the results of a query; a query without results adds no text.
    pub fn apply(&self, value: &Value) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Query(query) => {
                query.query(value).into_iter().map(text).collect::<Vec<_>>().join(" ")
            }
        };
        self.0.iter().map(part).collect()
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        other => escaped_json(&other.to_string()),
    }
}

impl FromStr for Template {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Template, Mistake> {
        if text.is_empty() {
            return Err(Mistake("write a query in braces: `{.spec}`".to_owned()));
        }
        // Nobody who writes a query without braces means its text.
        if text.starts_with(['.', '$']) && !text.contains('{') {
            return Ok(Template(vec![query(text)?]));
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some(start) = rest.find('{') {
            parts.push(Part::Text(rest[..start].to_owned()));
            let inside = &rest[start + 1..];
            let end = end(inside).ok_or_else(|| Mistake("`{` without `}`".to_owned()))?;
            parts.push(inside_braces(inside[..end].trim())?);
            rest = &inside[end + 1..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Template(parts))
    }
}

/// Where the braces end: at the first `}` outside quotes.
fn end(text: &str) -> Option<usize> {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Some(at),
            _ => {}
        }
    }
    None
}

fn inside_braces(text: &str) -> Result<Part, Mistake> {
    let is_word = |word: &str| text.split_whitespace().next() == Some(word);
    if is_word("range") || is_word("end") {
        let reason = "`range` is not needed: the template is applied to each resource";
        return Err(Mistake(reason.to_owned()));
    }
    let quoted =
        ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    match quoted {
        Some(text) => Ok(Part::Text(unescaped(text))),
        None => query(text),
    }
}

fn unescaped(text: &str) -> String {
    let (mut all, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        all.push(match (c, chars.clone().next()) {
            ('\\', Some(escaped)) => {
                chars.next();
                match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                }
            }
            (c, _) => c,
        });
    }
    all
}

/// A query with `$` before it, which people leave out.
fn query(text: &str) -> Result<Part, Mistake> {
    let full = match text.chars().next() {
        _ if text == "." => "$".to_owned(),
        Some('$') => text.to_owned(),
        Some('@') => text.replacen('@', "$", 1),
        Some('.' | '[') => format!("${text}"),
        _ => format!("$.{text}"),
    };
    JsonPath::parse(&full).map(Part::Query).map_err(|error| {
        Mistake(format!(
            "`{text}` is no query of RFC 9535: {error}; a name with other characters than letters, \
             digits and `_` is written `['NAME']`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn applied(template: &str) -> String {
        let value = json!({
            "id": "dns",
            "labels": { "example.org/rack": "7" },
            "spec": {
                "nameserver": ["192.0.2.1", "192.0.2.2"],
                "list": [{ "kind": "a", "name": "x" }, { "kind": "b", "name": "y" }],
                "count": 2,
                "text": "a\u{1b}\nb",
                "none": null,
            },
        });
        template.parse::<Template>().unwrap().apply(&value)
    }

    #[test]
    fn templates_of_kubectl_work() {
        for (template, text) in [
            ("{.spec.count}", "2"),
            ("{$.spec.count}{@.id}", "2dns"),
            ("{.id}: {.spec.nameserver[0]}", "dns: 192.0.2.1"),
            ("{.spec.nameserver[*]}", "192.0.2.1 192.0.2.2"),
            ("{.spec.nameserver}", r#"["192.0.2.1","192.0.2.2"]"#),
            ("{.spec.nameserver[-1:]}", "192.0.2.2"),
            ("{.spec.list[?(@.kind==\"b\")].name}", "y"),
            ("{.spec.list[?@.kind=='}']}x", "x"),
            ("{..name}", "x y"),
            ("{.labels['example.org/rack']}", "7"),
            ("{.id}{\"\\t\"}{.spec.count}", "dns\t2"),
            ("{.spec.text}", "a\\u{1b}\\nb"),
            ("{.spec.none}{.spec.missing}", ""),
            (".spec.count", "2"),
            ("{id}", "dns"),
            ("words", "words"),
        ] {
            assert_eq!(applied(template), text, "{template}");
        }
        assert!(applied("{.}").starts_with(r#"{"id":"dns""#));
    }

    #[test]
    fn mistakes_have_reasons() {
        let mistake = |text: &str| text.parse::<Template>().unwrap_err().to_string();
        assert_eq!(mistake("{.spec"), "`{` without `}`");
        assert_eq!(mistake("{.spec['}"), "`{` without `}`");
        assert!(mistake("{range .items[*]}{.id}{end}").contains("applied to each resource"));
        assert!(mistake("{.labels.a-b}").contains("['NAME']"));
        assert!(mistake("{.spec[}").contains("RFC 9535"));
        assert!(mistake("").contains("{.spec}"));
    }

    proptest! {
        #[test]
        fn no_text_ends_the_program(text in "[{}.\\[\\]$@?'\"a\\\\* (é=]{0,40}") {
            if let Ok(template) = text.parse::<Template>() {
                template.apply(&json!({ "a": [{ "a": 1 }] }));
            }
        }
    }
}
