//! The layers of the code, and abilities that only certain modules may use.

use super::code::{Source, problem};
use osbuild::error::Problem;

/// Words that must not occur in the code of some files.
struct Rule {
    /// Prefix of the files that the rule applies to.
    place: &'static str,
    /// Prefixes of files that are exempt.
    owners: &'static [&'static str],
    /// The forbidden words.
    words: &'static [&'static str],
    /// The reason, as the rest of a sentence that begins with the word.
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
            "crate::pipeline",
            "crate::cli",
            "crate::verbs",
        ],
        why: "is above the plan, which must not use it",
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
        why: "is impure, and the plan must be pure",
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
            "crate::verbs",
        ],
        why: "is above the engine, which runs actions without knowing what they build",
    },
    Rule {
        place: "builder/src/produce/",
        owners: &[],
        words: &[
            "crate::ship",
            "crate::host",
            "crate::checkout",
            "crate::pipeline",
            "crate::cli",
            "crate::verbs",
        ],
        why: "is above produce",
    },
    Rule {
        place: "builder/src/ship/",
        owners: &[],
        words: &["crate::host", "crate::checkout", "crate::pipeline", "crate::cli", "crate::verbs"],
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
        why: "starts a process, which only the executor, the clients of registries, `host` and the \
              machine may do",
    },
    Rule {
        place: "builder/src/",
        owners: &["builder/src/report.rs"],
        words: &["print!", "println!", "eprint!", "eprintln!", "dbg!", "stdout()", "stderr()"],
        why: "writes to the terminal, which only the report may do",
    },
    Rule {
        place: "builder/formats/",
        owners: &["builder/formats/tests/"],
        words: &["std::fs", "std::net", "std::process", "std::env"],
        why: "accesses the system, and formats work on bytes alone",
    },
    Rule {
        place: "builder/aws/",
        owners: &[],
        words: &["osbuild::", "std::process"],
        why: "is above the calls to AWS, which must not use it",
    },
    Rule {
        place: "builder/remote/",
        owners: &[],
        words: &["osbuild::", "std::process::Command"],
        why: "is above the client of shared caches, which must not use it",
    },
    Rule {
        place: "builder/signatures/",
        owners: &["builder/signatures/tests/"],
        words: &["std::fs", "std::net", "std::process", "std::env"],
        why: "accesses the system, and signatures work on bytes alone",
    },
    Rule {
        place: "components/shared/resources/",
        owners: &[],
        words: &[
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "SystemTime::now",
            "Instant::now",
            "async",
            "prost",
        ],
        why: "is impure or of the wire, and the store of resources is neither",
    },
    Rule {
        place: "components/init/src/dispatcher/",
        owners: &[],
        words: &["std::fs", "data::folder", "efivars"],
        why: "may wait for a disk, and the loop of `init` must not: it is a job of `disk_worker`",
    },
    Rule {
        place: "components/",
        owners: &[],
        words: &["osbuild::"],
        why: "is the builder, on which the node must not depend",
    },
];

/// Forbidden words in the file.
pub fn problems(source: &Source) -> Vec<Problem> {
    let applying = RULES.iter().filter(|rule| {
        source.file.starts_with(rule.place)
            && !rule.owners.iter().any(|owner| source.file.starts_with(owner))
    });
    applying.flat_map(|rule| broken(rule, source)).collect()
}

fn broken<'a>(rule: &'a Rule, source: &'a Source) -> impl Iterator<Item = Problem> + 'a {
    source.lines().filter_map(move |(number, line)| {
        let word = rule.words.iter().find(|word| occurs_in(line, word))?;
        Some(problem(&source.file, &source.text, number, word, format!("`{word}` {}", rule.why)))
    })
}

/// Whether `word` occurs in the line other than as the end of a longer word.
fn occurs_in(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

/// Dependencies of the node's crates on the builder.
pub fn crate_problems(file: &str, text: &str) -> Vec<Problem> {
    if !file.starts_with("components/") || !file.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let names = text.lines().enumerate().filter(|(_, line)| names_the_builder(line));
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

/// Whether a line of a manifest names the builder as a dependency: as a key, as the last part of a
/// table's name, or as the package behind another name.
fn names_the_builder(line: &str) -> bool {
    let is_builder = |name: &str| matches!(name.trim().trim_matches(['"', '\'']), "osbuild" | "ci");
    let line = line.trim();
    let table = line.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let package = line.split("package").skip(1).filter_map(|rest| {
        let value = rest.trim_start().strip_prefix('=')?;
        value.split([',', '}', '#']).next()
    });
    table.and_then(|name| name.rsplit_once('.')).is_some_and(|(_, last)| is_builder(last))
        || line.split(['.', ' ', '=']).next().is_some_and(is_builder)
        || package.into_iter().any(is_builder)
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
    fn the_plan_uses_no_higher_layer_and_nothing_impure() {
        assert_eq!(
            messages("builder/src/plan/a.rs", "use crate::engine::store;\n"),
            ["`crate::engine` is above the plan, which must not use it"]
        );
        assert_eq!(
            messages("builder/src/plan/a.rs", "use std::fs;\n"),
            ["`std::fs` is impure, and the plan must be pure"]
        );
        assert_eq!(
            messages("builder/src/produce/a.rs", "use crate::ship;\n"),
            ["`crate::ship` is above produce"]
        );
    }

    #[test]
    fn the_engine_uses_neither_the_plan_nor_a_stage() {
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
            ["`crate::engine` is above the plan, which must not use it"]
        );
    }

    #[test]
    fn no_layer_uses_verbs_or_the_command_line() {
        for layer in ["plan", "engine", "produce", "ship"] {
            for above in ["verbs", "cli", "pipeline", "checkout", "host"] {
                let file = format!("builder/src/{layer}/a.rs");
                let found = messages(&file, &format!("use crate::{above}::a;\n"));
                assert_eq!(found.len(), 1, "`{layer}` may use `{above}`");
            }
        }
    }

    #[test]
    fn only_the_exempt_files_start_processes_and_print() {
        assert_eq!(messages("builder/src/engine/store/mod.rs", "Command::new(x)").len(), 1);
        assert_eq!(messages("builder/src/ship/vm/machine/running.rs", "Command::new(x)").len(), 0);
        assert_eq!(messages("builder/src/cli.rs", "    println!(\"x\")").len(), 1);
        assert_eq!(messages("builder/src/report.rs", "    println!(\"x\")").len(), 0);
    }

    #[test]
    fn the_end_of_a_longer_word_is_no_match() {
        assert_eq!(messages("builder/src/cli.rs", "MyCommand::new(x); my_print!(y)").len(), 0);
    }

    #[test]
    fn a_crate_of_the_node_may_not_depend_on_the_builder() {
        assert_eq!(
            crate_problems(
                "components/init/Cargo.toml",
                "[dependencies]\nosbuild-abi.workspace = true\nosbuild.workspace = true\n"
            )
            .len(),
            1
        );
        for dependency in [
            "[dependencies.osbuild]\nworkspace = true\n",
            "[target.'cfg(unix)'.dev-dependencies.\"osbuild\"]\n",
            "tools = { path = \"../../builder\", package = \"osbuild\" }\n",
            "[dependencies.tools]\npackage = \"ci\" # of checks\n",
        ] {
            assert_eq!(crate_problems("components/a/Cargo.toml", dependency).len(), 1);
        }
        let others = "[package]\nname = \"init\"\n[dependencies.osbuild-abi]\n\
                      abi = { package = \"osbuild-abi\" }\n";
        assert!(crate_problems("components/a/Cargo.toml", others).is_empty());
        assert_eq!(crate_problems("builder/Cargo.toml", "osbuild.workspace = true\n").len(), 0);
    }
}
