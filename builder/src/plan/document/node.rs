//! The node document, checked for the person who writes it.

use super::part::Draft;
use super::{Item, Spot, Text, nearest};
use crate::error::{Problem, in_words};
use osbuild_document::{Document, Mistake};
use std::sync::Arc;

/// All mistakes of a node document, each with its place; none if a node accepts it. `name` is the
/// file's, for messages.
pub fn node_document_problems(name: &str, text: &str) -> Vec<Problem> {
    let source = Arc::new(Text { name: name.to_owned(), text: text.to_owned() });
    let problem = |mistake: Mistake| problem(&mistake).at(Spot::new(&source, mistake.span).place());
    Document::mistakes(text).into_iter().map(problem).collect()
}

/// Reads parts of a node document that stand in other files, each with its key: `kubelet.labels`.
///
/// # Errors
/// All mistakes, each at its place in those files, except for those inside secrets.
pub fn read_parts<'a>(
    parts: impl IntoIterator<Item = (&'a str, &'a Item)>,
) -> Result<Document, Vec<Problem>> {
    let mut draft = Draft::default();
    parts.into_iter().for_each(|(key, item)| draft.add(key, item));
    let problem = |mistake: Mistake| {
        let place = draft.spot(&mistake.span).map(Spot::place);
        Problem { place, ..problem(&mistake) }
    };
    let mistakes = Document::mistakes(&draft.text);
    let is_shown = |mistake: &Mistake| {
        // A file with a syntax error can have a part of a secret in the place of a key.
        let is_secret = draft.spot(&mistake.span).is_some_and(Spot::is_secret);
        !is_secret && !draft.is_replaced(&mistake.span)
    };
    let is_valid = mistakes.is_empty() && draft.problems.is_empty();
    let shown = mistakes.into_iter().filter(is_shown).map(problem);
    let problems: Vec<Problem> = draft.problems.iter().cloned().chain(shown).collect();
    match Document::parse(&draft.text) {
        Ok(document) if is_valid => Ok(document),
        Err(refusal) if is_valid => Err(vec![Problem::new(refusal.reason)]),
        _ => Err(problems),
    }
}

fn problem(mistake: &Mistake) -> Problem {
    match Unknown::read(&mistake.reason) {
        Some(unknown) => unknown.problem(),
        None => Problem::new(mistake.reason.as_str()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_shows_no_line_with_a_secret() {
        let text = "[[registry-credentials]]\nregistry = \"a\"\ntoken = \"hunter2 \"\n";
        let problems = node_document_problems("node.toml", text);
        let shown = format!("{problems:?}");
        assert!(!problems.is_empty() && !shown.contains("hunter2"), "{shown}");
        let text = "[[links]]\nlink = \"wg0\"\n[links.wireguard]\nprivate-key = \"hunter2\"\n";
        let problems = node_document_problems("node.toml", text);
        let shown = format!("{problems:?}");
        assert!(!problems.is_empty() && !shown.contains("hunter2"), "{shown}");
    }
}
