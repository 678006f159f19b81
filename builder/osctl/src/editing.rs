//! The text of a resource in an editor.

use crate::error::printable;
use osbuild_cosi::text_mistake;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A resource, as written in the text of an editor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    namespace: String,
    r#type: String,
    id: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    spec: Value,
}

impl Document {
    /// Reads a text with one document, whose spec has secrets in these fields.
    ///
    /// # Errors
    /// It is none, or a text in it would not stay as it is written: why.
    pub fn read(text: &str, secrets: &[String]) -> Result<Document, String> {
        // The node reads documents in the same way.
        let options = serde_saphyr::options! {
            strict_booleans: true,
            leading_zero_numbers_as_strings: true,
            underscored_numbers_as_strings: true,
        };
        let document: Document = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| error.without_snippet().to_string())?;
        match text_mistake(&document.spec, secrets) {
            Some(mistake) => Err(mistake),
            None => Ok(document),
        }
    }

    /// Refuses a document of another resource than the one that is edited.
    ///
    /// # Errors
    /// It is of another: which field differs.
    pub fn same_resource(self, edited: &Document) -> Result<Document, String> {
        let fields = [
            ("namespace", &self.namespace, &edited.namespace),
            ("type", &self.r#type, &edited.r#type),
            ("id", &self.id, &edited.id),
        ];
        if let Some((field, _, old)) = fields.into_iter().find(|(_, new, old)| new != old) {
            return Err(format!("`{field}` has to stay `{old}`"));
        }
        Ok(self)
    }

    /// Its spec as YAML.
    pub fn spec_yaml(&self) -> String {
        serde_saphyr::to_string(&self.spec).expect("what was read from YAML can be written")
    }
}

/// The text with comments above it.
pub fn with_comments(comments: &[String], text: &str) -> String {
    let lines = comments.iter().flat_map(|comment| comment.lines());
    let head: String = lines.map(|line| format!("# {}\n", printable(line))).collect();
    head + text
}

/// The text without the comments above it. Those further down are the user's.
pub fn without_comments(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str =
        "namespace: system\ntype: Hostnames.osbuild\nid: a\nspec:\n  hostname: b # mine\n";

    #[test]
    fn comments_are_above_the_text_and_go_again() {
        let comments = ["one\ntwo".to_owned(), "three\u{1b}".to_owned()];
        let text = with_comments(&comments, TEXT);
        assert!(text.starts_with("# one\n# two\n# three\\u{1b}\nnamespace"), "{text}");
        assert_eq!(without_comments(&text), TEXT);
        assert_eq!(without_comments("# a\n#b\n"), "");
    }

    #[test]
    fn only_what_may_change_changes() {
        let read = |text: &str| Document::read(text, &[]);
        let document = read(TEXT).unwrap();
        assert_eq!(document.spec_yaml(), "hostname: b\n");
        let new = read(&TEXT.replace("id: a", "id: b")).unwrap();
        assert_eq!(new.same_resource(&document).unwrap_err(), "`id` has to stay `a`");
        let labelled = read(&(TEXT.to_owned() + "labels: {rack: '7'}\n")).unwrap();
        assert_ne!(labelled, document);
        assert_eq!(labelled.same_resource(&document).unwrap().labels["rack"], "7");
        for text in ["", "a", "id: a", &(TEXT.to_owned() + "label: {}\n"), &TEXT.repeat(2)] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    fn with(value: &str, secrets: &[&str]) -> Result<String, String> {
        let secrets: Vec<String> = secrets.iter().map(|&field| field.to_owned()).collect();
        let text = TEXT.replace("b # mine", value);
        Document::read(&text, &secrets).map(|document| document.spec_yaml())
    }

    #[test]
    fn a_secret_that_is_no_text_is_refused() {
        for value in ["1.10", "0x1F", "true", "7", "~", "[a]"] {
            let mistake = with(value, &["other", "hostname"]).unwrap_err();
            assert_eq!(mistake, "`hostname` is secret: a text in quotes", "{value}");
        }
        assert_eq!(with("'1.10'", &["hostname"]).unwrap(), "hostname: \"1.10\"\n");
        assert_eq!(with("[{a: b}, {c: d}]", &["hostname.a"]), with("[{a: b}, {c: d}]", &[]));
        assert!(with("[{a: b}, {a: 1}]", &["hostname.a"]).is_err());
    }

    #[test]
    fn a_text_without_quotes_stays_as_it_is_written() {
        for text in ["no", "on", "y", "0755", "1_000", "Off"] {
            let Ok(Value::Object(spec)) = serde_saphyr::from_str(&with(text, &[]).unwrap()) else {
                panic!("{text}");
            };
            assert_eq!(spec["hostname"], text);
        }
        assert_eq!(with("10", &[]).unwrap(), "hostname: 10\n");
        for text in ["1.10", "{a: [1, 1e3]}"] {
            assert!(with(text, &[]).unwrap_err().contains("write a text in quotes"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_ends_the_program(text in "[a-z:\\[\\]{}#&* \\n'-]{0,60}") {
            if let Ok(document) = Document::read(&without_comments(&text), &[]) {
                document.spec_yaml();
            }
        }
    }
}
