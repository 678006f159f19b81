//! Rust source, divided into code, and comments and the contents of literals.

use osbuild::error::{Place, Problem};

/// A file of Rust source.
pub struct Source {
    /// Its path in the checkout.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The text with spaces in place of comments and the contents of literals, line by line.
    pub code: String,
    /// The number of lines before the file's unit tests.
    pub lines_before_tests: usize,
}

impl Source {
    /// Divides `text`.
    pub fn new(file: String, text: String) -> Self {
        let code = code(&text);
        let tests = code
            .lines()
            .collect::<Vec<_>>()
            .windows(2)
            .position(|two| two[0] == "#[cfg(test)]" && is_tests(two[1]));
        // A module of unit tests may have a file of its own.
        let lines_before_tests =
            if file.ends_with("/tests.rs") { 0 } else { tests.unwrap_or(usize::MAX) };
        Source { file, text, code, lines_before_tests }
    }

    /// The lines of code before the unit tests, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .take(self.lines_before_tests)
            .map(|(index, line)| (index + 1, line))
    }
}

/// Whether a line begins the module of unit tests. What it makes may serve those of another file.
fn is_tests(line: &str) -> bool {
    line.strip_prefix("pub(super) ").unwrap_or(line).starts_with("mod tests")
}

/// A problem that points at the text `what` in line `number` of a file.
pub fn problem(file: &str, text: &str, number: usize, what: &str, message: String) -> Problem {
    let line = text.lines().nth(number - 1).unwrap_or_default();
    let column = line.find(what).map_or(1, |at| line[..at].chars().count() + 1);
    Problem::new(message).at(Place {
        file: file.to_owned(),
        line: number,
        column,
        width: what.chars().count().max(1),
        text: line.to_owned(),
    })
}

/// The tokenizer's state.
enum Inside {
    Code,
    Line,
    Block(usize),
    Text,
    Raw(usize),
}

fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let (mut inside, mut at) = (Inside::Code, 0);
    while at < bytes.len() {
        let (next, length, keep) = step(&inside, &bytes[at..], at > 0 && is_word(bytes[at - 1]));
        for &byte in &bytes[at..at + length] {
            code.push(if byte == b'\n' || (keep && byte.is_ascii()) {
                char::from(byte)
            } else {
                ' '
            });
        }
        at += length;
        inside = next.unwrap_or(inside);
    }
    code
}

/// The next token of `rest`: the new state if it changes, the token's length in bytes, and whether
/// it is code.
fn step(inside: &Inside, rest: &[u8], in_word: bool) -> (Option<Inside>, usize, bool) {
    match inside {
        Inside::Code => step_in_code(rest, in_word),
        Inside::Line if rest[0] == b'\n' => (Some(Inside::Code), 1, true),
        Inside::Block(depth) if rest.starts_with(b"*/") => {
            (Some(if *depth == 1 { Inside::Code } else { Inside::Block(depth - 1) }), 2, false)
        }
        Inside::Block(depth) if rest.starts_with(b"/*") => {
            (Some(Inside::Block(depth + 1)), 2, false)
        }
        Inside::Text if rest[0] == b'\\' => (None, rest.len().min(2), false),
        Inside::Text if rest[0] == b'"' => (Some(Inside::Code), 1, true),
        Inside::Raw(hashes) if rest[0] == b'"' && hashes_after(&rest[1..]) >= *hashes => {
            (Some(Inside::Code), 1 + hashes, true)
        }
        _ => (None, 1, false),
    }
}

fn step_in_code(rest: &[u8], in_word: bool) -> (Option<Inside>, usize, bool) {
    if rest.starts_with(b"//") {
        return (Some(Inside::Line), 2, false);
    }
    if rest.starts_with(b"/*") {
        return (Some(Inside::Block(1)), 2, false);
    }
    match rest[0] {
        b'"' => (Some(Inside::Text), 1, true),
        b'r' if !in_word && raw(&rest[1..]).is_some() => {
            let hashes = hashes_after(&rest[1..]);
            (Some(Inside::Raw(hashes)), 2 + hashes, true)
        }
        b'b' if !in_word && rest.get(1) == Some(&b'r') && raw(&rest[2..]).is_some() => {
            (None, 1, true)
        }
        b'\'' => (None, character(rest), true),
        _ => (None, 1, true),
    }
}

fn raw(rest: &[u8]) -> Option<()> {
    (rest.get(hashes_after(rest)) == Some(&b'"')).then_some(())
}

fn hashes_after(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| **byte == b'#').count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character(rest: &[u8]) -> usize {
    let escaped = rest.get(1) == Some(&b'\\');
    let length = if escaped {
        rest.iter().skip(3).position(|byte| *byte == b'\'').map(|end| end + 4)
    } else {
        plain_character(rest)
    };
    length.unwrap_or(1)
}

fn plain_character(rest: &[u8]) -> Option<usize> {
    let end = (2..=5).find(|end| rest.get(*end) == Some(&b'\''))?;
    std::str::from_utf8(&rest[1..end])
        .ok()
        .filter(|text| text.chars().count() == 1)
        .map(|_| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> String {
        code(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_contents_of_literals_are_blanked() {
        assert_eq!(kept("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(kept(r#"a("x \" // y") b"#), "a(\" \") b");
        assert_eq!(kept("a(r##\"x \"# // y\"##) b; br\"z\" c"), "a(r##\" \"##) b; br\" \" c");
    }

    #[test]
    fn a_quote_is_a_character_or_a_lifetime() {
        assert_eq!(kept("f<'a>('\"', '\\'', 'é') // x"), "f<'a>('\"', '\\'', ' ')");
    }

    #[test]
    fn line_numbers_are_kept() {
        let text = "/* a\nb */ c\n\"d\ne\" f\n";
        assert_eq!(code(text).lines().count(), text.lines().count());
        assert!(code(text).lines().nth(1).unwrap().ends_with(" c"));
    }

    #[test]
    fn unit_tests_are_not_among_the_lines() {
        let source = Source::new(
            "a.rs".into(),
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n".into(),
        );
        assert_eq!(source.lines().map(|(number, _)| number).collect::<Vec<_>>(), [1]);
    }
}
