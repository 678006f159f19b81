//! Who may use what: the layers of the code, and the rights that have one owner each.

use super::code::{Source, problem};
use osbuild::error::Problem;

/// What code in some place may not do.
struct Rule {
    /// Paths that begin so are bound.
    place: &'static str,
    /// Those among them that begin so are not.
    owners: &'static [&'static str],
    /// What must not stand in their code.
    words: &'static [&'static str],
    /// Why, as the rest of a sentence that begins with the word.
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        place: "builder/src/plan/",
        owners: &[],
        words: &[
            "crate::engine",
            "crate::produce",
            "crate::ship",
            "crate::host",
            "crate::report",
            "crate::checkout",
        ],
        why: "is above the plan, which knows nothing of it",
    },
    Rule {
        place: "builder/src/plan/",
        owners: &[],
        words: &[
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::time",
            "File::open",
            "SystemTime",
            "Instant::now",
        ],
        why: "is not pure, and the plan is",
    },
    Rule {
        place: "builder/src/engine/",
        owners: &[],
        words: &[
            "crate::plan",
            "crate::produce",
            "crate::ship",
            "crate::host",
            "crate::cli",
            "crate::pipeline",
            "crate::checkout",
        ],
        why: "is above the engine, which runs actions without knowing what they build",
    },
    Rule {
        place: "builder/src/produce/",
        owners: &[],
        words: &["crate::ship", "crate::host", "crate::cli", "crate::pipeline"],
        why: "is above produce",
    },
    Rule {
        place: "builder/src/ship/",
        owners: &[],
        words: &["crate::host", "crate::cli", "crate::pipeline"],
        why: "is above ship",
    },
    Rule {
        place: "builder/src/",
        owners: &[
            "builder/src/engine/executor/",
            "builder/src/produce/fetch/client.rs",
            "builder/src/host/",
            "builder/src/ship/vm/machine/",
        ],
        words: &["Command::new", "process::Command"],
        why: "starts a process, which the executor, the clients of registries, host and machine \
              alone do",
    },
    Rule {
        place: "builder/src/",
        owners: &["builder/src/report.rs"],
        words: &["print!", "println!", "eprint!", "eprintln!", "dbg!", "stdout()", "stderr()"],
        why: "writes to the terminal, which the report alone does",
    },
    Rule {
        place: "builder/formats/",
        owners: &["builder/formats/tests/"],
        words: &["std::fs", "std::net", "std::process", "std::env"],
        why: "is no bytes, and formats are",
    },
    Rule {
        place: "builder/aws/",
        owners: &[],
        words: &["osbuild::", "std::process"],
        why: "is above the calls to AWS",
    },
    Rule {
        place: "builder/signatures/",
        owners: &["builder/signatures/tests/"],
        words: &["std::fs", "std::net", "std::process", "std::env"],
        why: "is no bytes, and signatures are",
    },
    Rule {
        place: "components/",
        owners: &[],
        words: &["osbuild::"],
        why: "is the builder, which the node does not know",
    },
];

/// What stands where it must not.
pub fn problems(source: &Source) -> Vec<Problem> {
    let bound = RULES.iter().filter(|rule| {
        source.file.starts_with(rule.place)
            && !rule.owners.iter().any(|owner| source.file.starts_with(owner))
    });
    bound.flat_map(|rule| broken(rule, source)).collect()
}

fn broken<'a>(rule: &'a Rule, source: &'a Source) -> impl Iterator<Item = Problem> + 'a {
    source.lines().filter_map(move |(number, line)| {
        let word = rule.words.iter().find(|word| stands_in(line, word))?;
        Some(problem(&source.file, &source.text, number, word, format!("`{word}` {}", rule.why)))
    })
}

/// Whether `word` stands in the line and is not the end of a longer one.
fn stands_in(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

/// The node's crates do not depend on the builder.
pub fn crate_problems(file: &str, text: &str) -> Vec<Problem> {
    if !file.starts_with("components/") || !file.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let names = text
        .lines()
        .enumerate()
        .filter(|(_, line)| matches!(line.split(['.', ' ', '=']).next(), Some("osbuild" | "ci")));
    names
        .map(|(index, line)| {
            problem(
                file,
                text,
                index + 1,
                line,
                "the node does not depend on the builder".to_owned(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(file: &str, text: &str) -> Vec<String> {
        problems(&Source::new(file.into(), text.into()))
            .into_iter()
            .map(|problem| problem.message)
            .collect()
    }

    #[test]
    fn the_plan_may_neither_look_up_nor_out() {
        assert_eq!(
            messages("builder/src/plan/a.rs", "use crate::engine::store;\n"),
            ["`crate::engine` is above the plan, which knows nothing of it"]
        );
        assert_eq!(
            messages("builder/src/plan/a.rs", "use std::fs;\n"),
            ["`std::fs` is not pure, and the plan is"]
        );
        assert_eq!(
            messages("builder/src/produce/a.rs", "use crate::ship;\n"),
            ["`crate::ship` is above produce"]
        );
    }

    #[test]
    fn the_engine_knows_neither_the_plan_nor_a_stage() {
        for above in ["plan", "produce", "ship"] {
            assert_eq!(
                messages("builder/src/engine/a.rs", &format!("use crate::{above}::a;\n")),
                [format!(
                    "`crate::{above}` is above the engine, which runs actions without knowing \
                     what they build"
                )]
            );
        }
        assert_eq!(
            messages("builder/src/plan/a.rs", "use crate::engine::digest;\n"),
            ["`crate::engine` is above the plan, which knows nothing of it"]
        );
    }

    #[test]
    fn a_right_is_its_owners_alone() {
        assert_eq!(messages("builder/src/engine/store/mod.rs", "Command::new(x)").len(), 1);
        assert_eq!(messages("builder/src/ship/vm/machine/running.rs", "Command::new(x)").len(), 0);
        assert_eq!(messages("builder/src/cli.rs", "    println!(\"x\")").len(), 1);
        assert_eq!(messages("builder/src/report.rs", "    println!(\"x\")").len(), 0);
    }

    #[test]
    fn a_longer_word_is_another_word() {
        assert_eq!(messages("builder/src/cli.rs", "MyCommand::new(x); my_print!(y)").len(), 0);
    }

    #[test]
    fn a_nodes_crate_may_not_name_the_builder() {
        assert_eq!(
            crate_problems(
                "components/init/Cargo.toml",
                "[dependencies]\nosbuild-abi.workspace = true\nosbuild.workspace = true\n"
            )
            .len(),
            1
        );
        assert_eq!(crate_problems("builder/Cargo.toml", "osbuild.workspace = true\n").len(), 0);
    }
}
