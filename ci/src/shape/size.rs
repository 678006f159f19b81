//! How long functions and files may be.

use super::code::{Source, problem};
use osbuild::error::Problem;

/// Most lines of a function, with its signature and its last brace.
const FUNCTION: usize = 70;

/// Most lines of a file.
const FILE: usize = 700;

/// Functions and files that are too long.
pub fn problems(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lines = source.code.lines().count();
    if lines > FILE {
        problems.push(Problem::new(format!("{}: {lines} lines, of at most {FILE}", source.file)));
    }
    for (first, last) in functions(&source.code) {
        let lines = last - first + 1;
        if lines > FUNCTION {
            problems.push(problem(
                &source.file,
                &source.text,
                first,
                "fn",
                format!("a function of {lines} lines, of at most {FUNCTION}"),
            ));
        }
    }
    problems
}

/// First and last line of each function. rustfmt puts the last brace under the first word.
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
    fn a_function_may_have_seventy_lines() {
        assert_eq!(problems(&source(70)), []);
        assert_eq!(problems(&source(71))[0].message, "a function of 71 lines, of at most 70");
    }

    #[test]
    fn a_file_may_have_seven_hundred_lines() {
        assert_eq!(problems(&Source::new("a.rs".into(), "\n".repeat(700))), []);
        assert_eq!(problems(&Source::new("a.rs".into(), "\n".repeat(701))).len(), 1);
    }

    #[test]
    fn a_declaration_is_no_function() {
        assert_eq!(functions("trait A {\n    fn a();\n    fn b() {}\n}\n"), []);
    }
}
