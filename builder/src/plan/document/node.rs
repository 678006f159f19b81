//! The node document, checked for the person who writes it.

use super::part::Draft;
use super::{Item, Spot, Text, nearest};
use crate::error::{Problem, in_words};
use osbuild_document::{Document, Mistake};
use regex_lite::Regex;
use std::sync::{Arc, LazyLock};

/// All mistakes of a node document, each with its place; none if a node accepts it. `name` is the
/// file's, for messages.
pub fn node_document_problems(name: &str, text: &str) -> Vec<Problem> {
    let source = Arc::new(Text { name: name.to_owned(), text: masked(text) });
    let problem = |mistake: Mistake| problem(&mistake).at(Spot::new(&source, mistake.span).place());
    Document::mistakes(text).into_iter().map(problem).collect()
}

/// Reads parts of a node document that stand in other files, each with its key: `kubelet.labels`.
///
/// # Errors
/// All mistakes, each at its place in those files.
pub fn read_parts<'a>(
    parts: impl IntoIterator<Item = (&'a str, &'a Item)>,
) -> Result<Document, Vec<Problem>> {
    let mut draft = Draft::default();
    parts.into_iter().for_each(|(key, item)| draft.add(key, item));
    if !draft.problems.is_empty() {
        return Err(draft.problems);
    }
    let problem = |mistake: Mistake| {
        let place = draft.spot(&mistake.span).map(Spot::place);
        Problem { place, ..problem(&mistake) }
    };
    let problems: Vec<Problem> = Document::mistakes(&draft.text).into_iter().map(problem).collect();
    let read = Document::parse(&draft.text);
    read.map_err(|refusal| match problems.is_empty() {
        true => vec![Problem::new(refusal.reason)],
        false => problems,
    })
}

fn problem(mistake: &Mistake) -> Problem {
    match Unknown::read(&mistake.reason) {
        Some(unknown) => unknown.problem(),
        None => Problem::new(mistake.reason.as_str()),
    }
}

/// The text with asterisks in the place of secrets, as messages show lines of it. Every byte keeps
/// its place.
fn masked(text: &str) -> String {
    static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let names = "password|token|private-key|preshared-key";
        // The rest of the line, as the mistake may be in its quotation marks.
        let value = r#""""[\s\S]*?"""|'''[\s\S]*?'''|[^\n]*"#;
        Regex::new(&format!(r#"\b(?:{names})["']?\s*=\s*(?<value>{value})"#)).ok()
    });
    let mut masked = text.to_owned();
    let found = SECRETS.iter().flat_map(|secrets| secrets.captures_iter(text));
    for value in found.filter_map(|found| found.name("value")) {
        let line = |byte| if byte == b'\n' { '\n' } else { '*' };
        let hidden: String = value.as_str().bytes().map(line).collect();
        masked.replace_range(value.range(), &hidden);
    }
    masked
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
        for spelling in [
            "token = \"\"\"hunter2 \"\"\"\n",
            "token = \"\"\"\nhunter2 \n\"\"\"\nb = 1\n",
            "\"password\" = \"hunter2 \"\n",
            "password = \"a\\\"hunter2 \"\n",
            "password = \"a\" hunter2\n",
        ] {
            let shown = masked(spelling);
            assert_eq!(shown.len(), spelling.len());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let inline = "a = [{ password = 'hunter2', token=hunter2 }]\nb = 1\n";
        let shown = masked(inline);
        assert_eq!(shown.len(), inline.len());
        assert!(!shown.contains("hunter2") && shown.ends_with("\nb = 1\n"), "{shown}");
    }
}
