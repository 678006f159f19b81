//! Compares the README's tables with `calls.toml` and `programs.toml`.

use crate::table;
use std::fmt::Write;

fn assert_in_readme(table: &str) {
    let readme = include_str!("../../README.md");
    assert!(readme.contains(table), "README.md must have this table:\n\n{table}");
}

#[test]
fn the_readme_shows_the_calls() {
    let mut shown = String::from("| used by | executed |\n|---|---|\n");
    for call in table::calls().call.iter().filter(|call| !call.lines.is_empty()) {
        let lines: Vec<String> = call.lines.iter().map(|line| format!("`{line}`")).collect();
        writeln!(shown, "| {} | {} |", call.used_by, lines.join("<br>")).unwrap();
    }
    assert_in_readme(&shown);
}

#[test]
fn the_readme_shows_the_programs() {
    let mut shown = String::from("| program | needed for | what a user sees |\n|---|---|---|\n");
    for program in table::programs().program {
        writeln!(shown, "| {} | {} | {} |", program.name, program.used_for, program.seen).unwrap();
    }
    assert_in_readme(&shown);
}
