//! Tests and checks that texts cite must exist.

use super::code::problem;
use osbuild::error::Problem;
use std::collections::BTreeSet;

/// A name with at least this many words is taken for a test's, not for another function's.
const MIN_WORDS: usize = 4;

/// Prefix of the names of the checks that boot machines.
const MACHINES: &str = "vm: ";

/// Names of tests and checks that `text` cites and that are not `known`.
pub fn problems(file: &str, text: &str, known: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let parts: Vec<&str> = line.split('`').collect();
        // A name that goes on in the next line has no end here.
        let quoted = parts[..parts.len() - 1].chunks_exact(2).map(|part| (part[0], part[1]));
        let cited = quoted.filter(|(before, name)| is_announced(before) || is_claim(name));
        let unknown = cited.map(|(_, name)| name).filter(|name| !known.contains(*name));
        problems.extend(unknown.map(|name| {
            problem(file, text, index + 1, name, format!("there is no test or check `{name}`"))
        }));
    }
    problems
}

/// Whether the words before a name say that it is that of a check or of a test.
fn is_announced(before: &str) -> bool {
    let before = before.trim_end().to_lowercase();
    ["the check", "the test"].iter().any(|words| before.ends_with(words))
}

fn is_claim(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    name.starts_with(MACHINES)
        || name.split('_').count() >= MIN_WORDS && name.split('_').all(is_word)
}

/// The names of the functions with `#[test]` or another attribute `…::test`, also those inside
/// macros such as `proptest!`. `code` has no comments and no contents of literals.
pub fn tests(code: &str) -> Vec<String> {
    /// Keywords between the attributes of a function and its `fn`.
    const QUALIFIERS: [&str; 5] = ["pub", "const", "async", "unsafe", "extern"];
    let mut tests = Vec::new();
    let (mut is_test, mut rest) = (false, code);
    while let Some((token, behind)) = next_token(rest) {
        rest = behind;
        match token {
            "#" if rest.trim_start().starts_with('[') => {
                let (attribute, behind) = attribute(rest.trim_start());
                is_test |= is_test_attribute(attribute);
                rest = behind;
            }
            "fn" => {
                let name = next_token(rest).map_or("", |(name, _)| name);
                tests.extend(std::mem::take(&mut is_test).then(|| name.to_owned()));
            }
            qualifier if QUALIFIERS.contains(&qualifier) => {}
            _ => is_test = false,
        }
    }
    tests
}

/// The first word or other character of `code`, and the code after it.
fn next_token(code: &str) -> Option<(&str, &str)> {
    let code = code.trim_start();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let first = code.chars().next()?;
    let length = match code.find(|c| !is_word(c)) {
        _ if !is_word(first) => first.len_utf8(),
        Some(end) => end,
        None => code.len(),
    };
    Some(code.split_at(length))
}

/// The content of the brackets at the start of `code`, and the code after them.
fn attribute(code: &str) -> (&str, &str) {
    let mut depth = 0;
    let end = code.find(|c| {
        depth += match c {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        depth == 0
    });
    let end = end.unwrap_or(code.len() - 1);
    (&code[1..end], &code[end + 1..])
}

/// Whether it is `test` or a path that ends with it, with or without arguments.
fn is_test_attribute(attribute: &str) -> bool {
    let path = attribute.split('(').next().unwrap_or_default();
    path.rsplit("::").next().is_some_and(|name| name.trim() == "test")
}

#[cfg(test)]
mod tests {
    use super::super::code::Source;
    use super::*;

    fn tests_of(text: &str) -> Vec<String> {
        tests(&Source::new("a.rs".into(), text.into()).code)
    }

    #[test]
    fn a_cited_test_that_does_not_exist_is_found() {
        let known = ["unsigned_uki_is_refused", "vm: slots"].map(str::to_owned).into();
        let text = "see `unsigned_uki_is_refused`, `vm: slots`, `sha256_of`, `a/b_c_d_e`\n\
                    `vm: gone` `no_such_test_is_there`";
        let found = problems("a.md", text, &known);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].message, "there is no test or check `vm: gone`");
        assert!(
            problems("a.md", "The check `vm:\nslots` and the check `vm: slots`", &known).is_empty()
        );
        let found = problems("a.md", "The check `gone` and the check `vm: slots`, `slots`", &known);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, "there is no test or check `gone`");
    }

    #[test]
    fn only_functions_with_a_test_attribute_are_tests() {
        let code = "#[test]\nfn one() {}\nfn helps_one_of_them() {}\n\
                    #[tokio::test(flavor = \"current_thread\")]\nasync fn two() {}\n\
                    #[test]\n#[cfg(unix)]\npub fn three() {}\n#[cfg(test)]\nfn four() {}\n\
                    #[test]\nconst X: u8 = 1;\nfn five() {}\n";
        assert_eq!(tests_of(code), ["one", "two", "three"]);
    }

    #[test]
    fn a_test_in_a_comment_or_a_literal_is_not_one() {
        let code = "// #[test]\n// fn one() {}\nconst A: &str = \"#[test] fn two() {}\";\n\
                    /* #[test] */ fn three() {}\n#[test] // why\nfn four() {}";
        assert_eq!(tests_of(code), ["four"]);
    }

    #[test]
    fn a_property_of_proptest_is_a_test() {
        let code = "proptest! {\n    #![proptest_config(config())]\n    #[test]\n    \
                    fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..9)) {}\n}";
        assert_eq!(tests_of(code), ["any_bytes_are_read"]);
    }
}
