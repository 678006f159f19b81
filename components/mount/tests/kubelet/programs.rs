//! Compares the table of programs that the node lacks with the source that it was taken from.

use crate::golang;
use crate::table::{self, Phrase, Site};
use std::fs;

/// Whether a line calls `os/exec`, `k8s.io/utils/exec`, or the iscsi plugin's wrapper around it.
fn executes(line: &str) -> bool {
    [".Command(", ".CommandContext(", ".LookPath(", "execWithLog("]
        .iter()
        .any(|call| line.contains(call))
}

#[test]
fn every_line_that_executes_a_program_is_in_a_table() {
    let (calls, programs) = (table::calls(), table::programs());
    let mut found = Vec::new();
    for module in &programs.module {
        let root = golang::module(&module.path, &calls.kubernetes);
        found.extend(golang::sites(&module.path, &root, &module.folders, executes));
    }
    let mut known: Vec<Site> = calls
        .call
        .into_iter()
        .map(|call| call.site)
        .filter(|site| executes(&site.source))
        .collect();
    known.extend(programs.program.into_iter().flat_map(|program| program.sites));
    known.extend(programs.other.into_iter().map(|other| other.site));
    golang::same_sites(found, known);
}

#[test]
fn the_messages_for_users_are_those_of_the_source() {
    let kubernetes = table::calls().kubernetes;
    for program in table::programs().program {
        for Phrase { module, file, text } in program.phrases {
            let source =
                fs::read_to_string(golang::module(&module, &kubernetes).join(&file)).unwrap();
            assert!(source.contains(&text), "{}: {file} does not contain `{text}`", program.name);
            for part in text.split("%").map(|part| part.trim_start_matches(['s', 'v', 'w'])) {
                assert!(
                    program.seen.contains(part.trim()),
                    "{}: `seen` does not contain `{part}`",
                    program.name
                );
            }
        }
    }
}
