//! The forms in which resources are printed.

use crate::template::Template;
use clap::builder::{
    PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParserFactory,
};
use clap::{Arg, Command};
use std::ffi::OsStr;

/// The prefix of a template.
const JSON_PATH: &str = "jsonpath=";

/// The form of resources.
#[derive(Clone, Debug)]
pub enum Form {
    /// A table for people.
    Table,
    /// The same with more columns.
    Wide,
    /// YAML documents, as `apply` reads them.
    Yaml,
    /// JSON.
    Json,
    /// TOML.
    Toml,
    /// TYPE/ID.
    Name,
    /// A line for each resource, made by a template.
    JsonPath(Template),
}

/// Reads a form.
#[derive(Clone, Copy, Debug)]
pub struct FormParser;

impl ValueParserFactory for Form {
    type Parser = FormParser;

    fn value_parser() -> FormParser {
        FormParser
    }
}

impl FormParser {
    fn values() -> [PossibleValue; 7] {
        [
            ("table", "A table for people"),
            ("wide", "The same, with owners, times and labels"),
            ("yaml", "YAML documents, as `apply` reads them"),
            (
                "json",
                "JSON: one object for a resource with its identifier, else a list; with `--watch` \
                 one object a line",
            ),
            ("toml", "TOML: `[[resources]]` with the fields of JSON"),
            ("name", "TYPE/ID, one a line"),
            (
                JSON_PATH,
                "A line for each resource, made by the template that follows: \
                 `jsonpath={.id}: {.spec.hostname}`",
            ),
        ]
        .map(|(name, help)| PossibleValue::new(name).help(help))
    }
}

impl TypedValueParser for FormParser {
    type Value = Form;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Form, clap::Error> {
        if value.to_str().is_some_and(|value| value.starts_with(JSON_PATH)) {
            let template = |text: String| text[JSON_PATH.len()..].parse().map(Form::JsonPath);
            return StringValueParser::new().try_map(template).parse_ref(command, arg, value);
        }
        let words = PossibleValuesParser::new(Self::values()).parse_ref(command, arg, value)?;
        Ok(match words.as_str() {
            "wide" => Form::Wide,
            "yaml" => Form::Yaml,
            "json" => Form::Json,
            "toml" => Form::Toml,
            "name" => Form::Name,
            _ => Form::Table,
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Self::values().into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser;

    fn form(text: &str) -> Result<Form, clap::Error> {
        let cli = Cli::try_parse_from(["osctl", "get", "hostnames", "-o", text])?;
        let Verb::Get { output, .. } = cli.verb else { panic!("another verb") };
        Ok(output)
    }

    #[test]
    fn a_form_is_a_word_or_a_template() {
        assert!(matches!(form("wide"), Ok(Form::Wide)));
        assert!(matches!(form("jsonpath={.spec.x}"), Ok(Form::JsonPath(_))));
        let wrong = form("jsonpath={.spec").unwrap_err();
        assert!(wrong.to_string().contains("`{` without `}`"), "{wrong}");
        assert!(form("xml").unwrap_err().to_string().contains("possible values"));
        assert!(form("jsonpath=").is_err());
    }
}
