//! The node document, checked for the person who writes it.

use super::{Spot, Text, nearest};
use crate::error::{Problem, in_words};
use osbuild_document::{Document, Mistake};
use std::sync::Arc;

/// All mistakes of a node document, each with its place; none if a node accepts it. `name` is the
/// file's, for messages.
pub fn node_document_problems(name: &str, text: &str) -> Vec<Problem> {
    let source = Arc::new(Text { name: name.to_owned(), text: text.to_owned() });
    let problem = |mistake: Mistake| {
        let place = Spot::new(&source, mistake.span.clone()).place();
        match Unknown::read(&mistake.reason) {
            Some(unknown) => unknown.problem().at(place),
            None => Problem::new(mistake.reason).at(place),
        }
    };
    Document::mistakes(text).into_iter().map(problem).collect()
}

/// An unknown word, and the words in whose place it stands.
struct Unknown<'a> {
    kind: &'static str,
    written: &'a str,
    known: Vec<&'a str>,
}

impl<'a> Unknown<'a> {
    /// Reads serde's message: ``unknown field `a`, expected `b` or `c` ``.
    fn read(reason: &'a str) -> Option<Self> {
        let (kind, rest) = match reason.strip_prefix("unknown field `") {
            Some(rest) => ("key", rest),
            None => ("word", reason.strip_prefix("unknown variant `")?),
        };
        let (written, expected) = rest.rsplit_once("`, expected ")?;
        let known = expected.split('`').skip(1).step_by(2).collect();
        Some(Unknown { kind, written, known })
    }

    fn problem(self) -> Problem {
        let Unknown { kind, written, known } = self;
        let hint = match nearest(written, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", in_words(known.into_iter())),
        };
        Problem::new(format!("unknown {kind} `{written}`")).hint(hint)
    }
}
