//! Limits on the lengths of functions, files and lines.

use super::code::{Source, problem};
use osbuild::error::Problem;

/// Lines of a function, from its signature to its last brace.
const MAX_FUNCTION_LINES: usize = 70;

/// Lines of a file.
const MAX_FILE_LINES: usize = 700;

/// Columns of a line, as in `rustfmt.toml`.
const MAX_COLUMNS: usize = 100;

/// Functions, files and lines that are too long.
pub fn problems(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lines = source.code.lines().count();
    if lines > MAX_FILE_LINES {
        let message = format!("{}: {lines} lines, more than {MAX_FILE_LINES}", source.file);
        problems.push(Problem::new(message));
    }
    for (index, line) in source.text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > MAX_COLUMNS && !is_unbreakable(line) {
            let message = format!("a line of {columns} columns, more than {MAX_COLUMNS}");
            problems.push(problem(&source.file, &source.text, index + 1, line.trim(), message));
        }
    }
    for (first, last) in functions(&source.code) {
        let lines = last - first + 1;
        if lines > MAX_FUNCTION_LINES {
            let message = format!("a function of {lines} lines, more than {MAX_FUNCTION_LINES}");
            problems.push(problem(&source.file, &source.text, first, "fn", message));
        }
    }
    problems
}

/// Whether the line holds only a URL or a literal that cannot be broken: one word, without an
/// escaped newline, behind the start of a comment if there is one.
fn is_unbreakable(line: &str) -> bool {
    let text = line.trim().trim_start_matches(['/', '!']).trim();
    !text.contains(char::is_whitespace) && !text.contains("\\n")
}

/// First and last line of each function. rustfmt indents the last brace like the first word.
fn functions(code: &str) -> Vec<(usize, usize)> {
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        if begins_function(text) && !text.ends_with(';') && !text.ends_with('}') {
            open.push((indent, index + 1));
        }
        if text.starts_with('}') && open.last().is_some_and(|(start, _)| *start == indent) {
            found.extend(open.pop().map(|(_, first)| (first, index + 1)));
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    const BEFORE: [&str; 5] = ["pub", "const", "async", "unsafe", "extern"];
    let mut words = line.split_whitespace().skip_while(|word| {
        BEFORE.contains(&word.split('(').next().unwrap_or(word)) || word.starts_with('"')
    });
    words.next() == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(lines: usize) -> Source {
        let text = format!(
            "impl A {{\n    pub(super) const fn a() {{\n{}    }}\n}}\n",
            "        b();\n".repeat(lines - 2)
        );
        Source::new("a.rs".into(), text)
    }

    #[test]
    fn a_function_has_at_most_seventy_lines() {
        assert_eq!(problems(&source(70)), []);
        assert_eq!(problems(&source(71))[0].message, "a function of 71 lines, more than 70");
    }

    #[test]
    fn a_file_has_at_most_seven_hundred_lines() {
        assert_eq!(problems(&Source::new("a.rs".into(), "\n".repeat(700))), []);
        assert_eq!(problems(&Source::new("a.rs".into(), "\n".repeat(701))).len(), 1);
    }

    #[test]
    fn a_line_has_at_most_a_hundred_columns() {
        let problems = |line: &str| problems(&Source::new("a.rs".into(), format!("{line}\n")));
        for start in ["// ", "let x = \"", "f(a, ", "/// \u{e9}"] {
            let rest = " a".repeat(50);
            let line: String = format!("{start}{rest}").chars().take(100).collect();
            assert_eq!(problems(&line), [], "{line}");
            assert_eq!(
                problems(&format!("{line}b"))[0].message,
                "a line of 101 columns, more than 100"
            );
        }
        assert_eq!(problems(&format!("    \"a\\n{}\",", "b".repeat(100))).len(), 1);
    }

    #[test]
    fn a_url_or_a_literal_of_one_word_may_be_longer() {
        let word = "a".repeat(120);
        for line in [format!("/// https://example.org/{word}"), format!("    \"{word}\",")] {
            assert_eq!(problems(&Source::new("a.rs".into(), line.clone())), [], "{line}");
        }
    }

    #[test]
    fn a_declaration_is_not_a_function() {
        assert_eq!(functions("trait A {\n    fn a();\n    fn b() {}\n}\n"), []);
    }
}
