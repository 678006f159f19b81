//! What a text says that a test shows: there has to be a test, or a check, of that name.

use super::code::problem;
use osbuild::error::Problem;
use std::collections::BTreeSet;

/// How many words make a name one of a test, and not of a function or a type that a text speaks of.
const WORDS: usize = 4;

/// How the checks of `cargo ci` that start machines are called.
const MACHINES: &str = "vm: ";

/// Names of tests and checks in `text` that nothing has. `known` are those that there are.
pub fn problems(file: &str, text: &str, known: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let named = line.split('`').skip(1).step_by(2).filter(|name| is_claim(name));
        let unknown = named.filter(|name| !known.contains(*name));
        problems.extend(unknown.map(|name| {
            problem(file, text, index + 1, name, format!("there is no test or check `{name}`"))
        }));
    }
    problems
}

fn is_claim(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    name.starts_with(MACHINES) || name.split('_').count() >= WORDS && name.split('_').all(is_word)
}

/// Names of functions and whole words in quotes that look like names of tests, in the code of a
/// file.
pub fn known(code: &str) -> impl Iterator<Item = String> {
    let word = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    code.split(word).filter(|name| is_claim(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_speaks_of_a_test_that_is_gone_is_found() {
        let code = "fn unsigned_uki_is_refused() {}\nconst X: &str = \"cred_on_esp_is_ignored\";";
        let known: BTreeSet<String> = known(code).chain(["vm: slots".to_owned()]).collect();
        let text = "see `unsigned_uki_is_refused`, `cred_on_esp_is_ignored`, `vm: slots`, `sha256_of`, `a/b_c_d_e`\n`vm: gone` `no_such_test_is_there`";
        let found = problems("a.md", text, &known);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].message, "there is no test or check `vm: gone`");
    }
}
