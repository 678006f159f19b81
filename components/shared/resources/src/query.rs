//! Which resources of a kind a list or a watch is about.

use crate::{LabelQuery, Resource};
use regex::{Regex, RegexBuilder};
use std::error::Error;
use std::fmt;

/// Bytes of a regular expression. Compiling one of a million bytes takes 190 MB.
const MAX_PATTERN: usize = 1024;

/// Bytes that a compiled regular expression may take. Each watch may hold one.
const MAX_COMPILED: usize = 64 << 10;

/// A regular expression that occurs somewhere in the identifier.
#[derive(Clone, Debug)]
pub struct IdQuery(Regex);

impl IdQuery {
    /// Compiles the expression.
    pub fn new(pattern: &str) -> Result<IdQuery, InvalidPattern> {
        if pattern.len() > MAX_PATTERN {
            return Err(InvalidPattern::TooLong);
        }
        let compiled = RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build();
        compiled.map(IdQuery).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => InvalidPattern::TooLarge,
            error => InvalidPattern::Syntax(error.to_string()),
        })
    }
}

/// Why a regular expression was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum InvalidPattern {
    /// It cannot be read.
    Syntax(String),
    /// It has too many bytes.
    TooLong,
    /// It would take more memory than a query may.
    TooLarge,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            InvalidPattern::Syntax(error) => f.write_str(error),
            InvalidPattern::TooLong => {
                write!(f, "the regular expression has more than {MAX_PATTERN} bytes")
            }
            InvalidPattern::TooLarge => {
                write!(f, "the regular expression takes more than {MAX_COMPILED} bytes")
            }
        }
    }
}

impl Error for InvalidPattern {}

/// Selects resources by identifier and labels.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The expression that the identifier must match. Without one, every identifier matches.
    pub id: Option<IdQuery>,
    /// Queries of which one must match. Without any, all labels match.
    pub labels: Vec<LabelQuery>,
}

impl Query {
    /// Whether the resource is selected.
    pub fn matches(&self, resource: &Resource) -> bool {
        let content = &resource.content;
        let mut labels = self.labels.iter();
        self.id.as_ref().is_none_or(|id| id.0.is_match(content.key.id()))
            && (self.labels.is_empty() || labels.any(|query| query.matches(&content.labels)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::resource;
    use crate::{LabelTerm, Test};

    fn has(key: &str) -> LabelTerm {
        LabelTerm { key: key.into(), test: Test::Exists, invert: false }
    }

    #[test]
    fn one_label_query_must_match_with_all_its_terms() {
        let mut found = resource("a");
        found.content.labels = [("x".into(), "1".into()), ("y".into(), "2".into())].into();
        let matches = |labels: Vec<LabelQuery>| Query { id: None, labels }.matches(&found);
        assert!(matches(vec![]));
        assert!(matches(vec![LabelQuery(vec![has("x"), has("y")])]));
        assert!(!matches(vec![LabelQuery(vec![has("x"), has("z")])]));
        assert!(matches(vec![LabelQuery(vec![has("z")]), LabelQuery(vec![has("y")])]));
    }

    #[test]
    fn an_expression_matches_any_part_of_the_identifier() {
        let matches = |pattern| {
            let id = Some(IdQuery::new(pattern).unwrap());
            Query { id, labels: vec![] }.matches(&resource("net.ipv4.ip_forward"))
        };
        assert!(matches("ipv[46]"));
        assert!(!matches("^ipv4"));
        assert!(matches(r"^net\.ipv4\.\w+$"));
    }

    #[test]
    fn a_bad_long_or_huge_expression_is_refused() {
        assert!(matches!(IdQuery::new("(").unwrap_err(), InvalidPattern::Syntax(_)));
        assert!(IdQuery::new(&"a".repeat(1024)).is_ok());
        assert_eq!(IdQuery::new(&"a".repeat(1025)).unwrap_err(), InvalidPattern::TooLong);
        assert_eq!(IdQuery::new(r"\w{1000}").unwrap_err(), InvalidPattern::TooLarge);
    }
}
