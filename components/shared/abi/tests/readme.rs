//! The table of writable paths that the documentation shows is the table of the code.

use osbuild_abi::writable::{Backing, WRITABLE, Writable};

const README: &str = include_str!("../../../init/README.md");

fn row(row: &Writable) -> String {
    let (behind, lives) = match row.backing {
        Backing::Data(name) => (format!("DATA, `{name}`"), "as long as the disk"),
        Backing::DataFile(name) => (format!("DATA, file `{name}`"), "as long as the disk"),
        Backing::Memory(percent) => (format!("memory, up to {percent} %"), "until the next boot"),
    };
    let exec = if row.exec { "yes" } else { "no" };
    format!("| `{}` | {behind} | {lives} | {:04o} | {exec} | {} |\n", row.path, row.mode, row.owner)
}

#[test]
fn the_readme_of_init_shows_every_writable_path() {
    let head = "| path | behind it | lives | mode | executable | written by |\n\
                |---|---|---|---|---|---|\n";
    let table: String = WRITABLE.iter().map(row).collect();
    assert!(README.contains(&format!("{head}{table}\n")), "{head}{table}");
}
