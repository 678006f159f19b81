//! Words that must not occur in the repository.

use super::code::{Source, problem};
use osbuild::error::Problem;

/// Marks of unfinished work, concatenated so that this file does not contain them.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

/// Paths of a developer's machine.
const MACHINE: [&str; 3] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/var/", "tmp/")];

/// First labels of the host names of package registries, which only the ecosystems' clients use.
const REGISTRIES: [&str; 7] = ["deb", "security", "proxy", "registry", "index", "static", "files"];

/// Words without a meaning of their own, or with a better word in the design.
const EMPTY: [&str; 5] = ["artifact", "helper", "manager", "profile", "variant"];

/// Names of modules that do not describe their contents.
const EMPTY_FILES: [&str; 5] = ["common", "helpers", "misc", "util", "utils"];

/// Words that are replaced throughout, each with its replacement. A word that ends with `_` is the
/// start of a name; a word in mixed case may be a part of one.
const REPLACED: &[(&str, &str)] = &[
    ("PATIENCE", "TIMEOUT"),
    ("patience", "timeout"),
    ("MOST_", "MAX_"),
    ("LONGEST_", "MAX_"),
    ("LEAST_", "MIN_"),
    ("whoever", "the actor's name"),
    ("Whoever", "the actor's name"),
    ("whom", "the actor's name"),
    ("that which", "the noun"),
    ("of which there", "the noun, with its number or place"),
    ("is to have", "must have"),
    ("are to be", "must be"),
    ("thrice", "three times"),
    ("told", "reported, printed, requested or given"),
    ("Told", "StopReason, Sent or the noun of the field"),
    ("judge", "check"),
    ("judged", "checked"),
    ("Judge", "Checker"),
    ("judges", "checks"),
    ("judging", "checking"),
    ("verdict", "outcome"),
    ("verdicts", "outcomes"),
    ("Verdict", "Outcome"),
    ("Wish", "Requirement"),
    ("Court", "Checker"),
    ("teller", "echo"),
    ("errand", "job"),
    ("errands", "jobs"),
    ("Errand", "UpdateJob"),
    ("Door", "ControlSocket"),
    ("doors", "sockets"),
    ("Doors", "sockets"),
    ("bury", "on_exit"),
    ("obituary", "exit_message"),
    ("he", "the actor's name, or `they`"),
    ("him", "the actor's name, or `them`"),
    ("his", "the actor's name, or `their`"),
    ("himself", "the actor's name, or `themselves`"),
];

/// Words with which no line of a comment begins: such a clause names nothing. A comment begins with
/// the noun or the verb of the item.
const FREE_CLAUSES: [&str; 3] = ["What", "Who", "Whoever"];

/// This file, which has the list; a text of others; and a file of the node's image, whose bytes are
/// part of the keys of builds.
const EXEMPT: [&str; 3] = ["ci/src/shape/words.rs", "LICENSE", "components/kubelet/kubelet.yaml"];

/// Words of [`REPLACED`] in any text of ours: code, comments, messages and documents.
pub fn replaced(file: &str, text: &str) -> Vec<Problem> {
    if EXEMPT.contains(&file) || file.ends_with(".lock") || file.ends_with(".patch") {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| {
        let words = REPLACED.iter().filter(move |(word, _)| has_word(line, word));
        words.map(move |(word, better)| (index + 1, *word, *better))
    });
    found
        .map(|(number, word, better)| {
            problem(file, text, number, word, format!("`{word}` should be: {better}"))
        })
        .collect()
}

/// Whether the line contains the word as a whole word, or the start of a name at the start of a
/// name.
fn has_word(line: &str, word: &str) -> bool {
    let is_mixed = word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase);
    line.match_indices(word).any(|(at, _)| {
        let (before, behind) = (&line[..at], &line[at + word.len()..]);
        if word.ends_with('_') {
            return !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        }
        let begins =
            !before.ends_with(|c: char| c.is_alphanumeric() && !(is_mixed && c.is_lowercase()));
        let ends =
            !behind.starts_with(|c: char| c.is_alphanumeric() && !(is_mixed && c.is_uppercase()));
        begins && ends
    })
}

/// Marks, paths and hosts in all texts except locks, whose text is upstream's.
pub fn in_text(file: &str, text: &str) -> Vec<Problem> {
    if file.ends_with(".lock") {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            unwanted(line).map(|(what, why)| {
                problem(file, text, index + 1, what, format!("`{what}` is {why}"))
            })
        })
        .collect()
}

fn unwanted(line: &str) -> Option<(&str, &'static str)> {
    let unfinished = UNFINISHED
        .into_iter()
        .find(|mark| line.contains(mark))
        .map(|mark| (mark, "a mark of unfinished work"));
    let machine = || {
        MACHINE
            .into_iter()
            .find(|path| continues(line, path))
            .map(|path| (path, "a path of a developer's machine"))
    };
    unfinished
        .or_else(machine)
        .or_else(|| registry(line).map(|host| (host, "the host of a registry")))
}

/// Whether a name follows the path. The path alone may be a search pattern.
fn continues(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| line[at + path.len()..].starts_with(char::is_alphanumeric))
}

fn registry(line: &str) -> Option<&str> {
    line.split("://").skip(1).find_map(|rest| {
        let host = rest.split(['/', '"', '`', ' ', ')']).next()?;
        let (label, domain) = host.split_once('.')?;
        (REGISTRIES.contains(&label) && domain.contains('.')).then_some(host)
    })
}

/// A file whose name does not describe its contents.
pub fn in_path(file: &str) -> Option<Problem> {
    let empty = |name: &str| EMPTY_FILES.contains(&name.strip_suffix(".rs").unwrap_or(name));
    file.split('/')
        .any(empty)
        .then(|| Problem::new(format!("the name of `{file}` does not describe its contents")))
}

/// Names of types, traits, modules and functions that contain an empty word.
pub fn in_names(source: &Source) -> Vec<Problem> {
    source
        .lines()
        .filter_map(|(number, line)| {
            let name = defined(line)?;
            let word = words(name).find(|word| EMPTY.contains(&word.as_str()))?;
            Some(problem(
                &source.file,
                &source.text,
                number,
                name,
                format!("`{word}` is an empty word: name the thing itself"),
            ))
        })
        .collect()
}

/// Lines of comments that begin with a word of [`FREE_CLAUSES`].
pub fn in_comments(source: &Source) -> Vec<Problem> {
    let lines = source.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']);
            let first = comment.trim_start().split(' ').next()?;
            let word = FREE_CLAUSES.into_iter().find(|word| *word == first)?;
            let message =
                format!("a comment begins with `{word}`: begin with the noun or the verb");
            Some(problem(&source.file, &source.text, index + 1, word, message))
        })
        .collect()
}

/// The name that a line of code defines.
fn defined(line: &str) -> Option<&str> {
    let mut words =
        line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.find(|word| ["struct", "enum", "trait", "mod", "fn", "type"].contains(word))?;
    words.next()
}

/// The words of a name, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::new();
    for c in name.chars() {
        if c.is_uppercase() || c == '_' {
            spaced.push(' ');
        }
        spaced.extend(c.to_lowercase().filter(|c| *c != '_'));
    }
    spaced
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_paths_and_hosts_are_found() {
        let unfinished = format!("// {}: later", UNFINISHED[0]);
        let path = format!("let x = \"{}me\";", MACHINE[0]);
        let sought = format!("text.contains(\"{}\")", MACHINE[0]);
        for (line, count) in [
            (unfinished.as_str(), 1),
            (path.as_str(), 1),
            (sought.as_str(), 0),
            ("see https://crates.io/x", 0),
            ("a plain line", 0),
        ] {
            assert_eq!(in_text("a.rs", line).len(), count, "{line}");
        }
        assert_eq!(in_text("a.lock", &unfinished), []);
        let host = format!("get {}{}.example.org/x", "https:", "//deb");
        assert_eq!(
            in_text("a.md", &host)[0].message,
            "`deb.example.org` is the host of a registry"
        );
    }

    #[test]
    fn a_replaced_word_is_found_with_its_replacement() {
        let messages = |text: &str| {
            replaced("a.md", text).into_iter().map(|problem| problem.message).collect::<Vec<_>>()
        };
        assert_eq!(messages("const PATIENCE: u8 = 1;"), ["`PATIENCE` should be: TIMEOUT"]);
        assert_eq!(messages("MOST_BYTES and AT_MOST_ONE"), ["`MOST_` should be: MAX_"]);
        assert_eq!(messages("fn is_told() {}\nuntold, toldoni").len(), 1);
        assert_eq!(messages("struct NodeVerdict; fn a(list: WishList)").len(), 2);
        assert_eq!(messages("the threshold, a chemist, then history, Courtesy"), [""; 0]);
        assert_eq!(replaced("a.lock", "whoever"), []);
    }

    #[test]
    fn an_empty_name_of_a_file_is_found() {
        assert!(
            in_path("builder/src/utils.rs").is_some()
                && in_path("builder/tests/common/mod.rs").is_some()
        );
        assert!(in_path("components/linux/fragments/common.config").is_none());
    }

    #[test]
    fn a_comment_that_begins_with_a_free_clause_is_found() {
        let found = |text: &str| in_comments(&Source::new("a.rs".into(), text.into())).len();
        assert_eq!(found("//! What is known.\n\n    /// Who has begun it.\n// Whoever\n"), 3);
        assert_eq!(found("/// The state.\n/// Whole words only: what is within stays.\n"), 0);
        assert_eq!(found("let text = \"What\"; // What follows code\n"), 0);
    }

    #[test]
    fn an_empty_word_in_a_name_is_found() {
        let source = |text: &str| in_names(&Source::new("a.rs".into(), text.into())).len();
        assert_eq!(source("pub struct StoreManager;"), 1);
        assert_eq!(source("pub(crate) mod log_helper;"), 1);
        assert_eq!(source("fn find_variant(x: u8) {}"), 1);
        assert_eq!(source("pub struct Store; // a manager"), 0);
        assert_eq!(source("fn invariant() {}"), 0);
    }
}
