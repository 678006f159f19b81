//! Maps in READMEs: tables of the folders beside them.
//!
//! A table is a map if the first cell of its header is one of [`HEADERS`]. Its rows name relative
//! paths in their first cells: in backticks, or as the target of a link around them.

use super::code::problem;
use osbuild::error::Problem;
use std::collections::BTreeSet;

/// The first cells of the headers of maps.
const HEADERS: [&str; 4] = ["folder", "component", "crate", "pod"];

/// A row of a map: its line, and the paths that it names.
type Row<'t> = (usize, Vec<&'t str>);

/// Paths in the maps of a README that do not exist, and folders beside it that its maps leave out.
/// `files` are the files that git knows, `ignored` the paths that it ignores.
pub fn problems(
    readme: &str,
    text: &str,
    files: &[String],
    ignored: &BTreeSet<String>,
) -> Vec<Problem> {
    let folder = readme.rsplit_once('/').map_or("", |(folder, _)| folder);
    let Some((header, rows)) = rows(text) else { return Vec::new() };
    let mut problems = Vec::new();
    let mut named = BTreeSet::new();
    for (line, name) in rows.iter().flat_map(|(line, names)| names.iter().map(move |n| (*line, *n)))
    {
        let path = joined(folder, name);
        let is_in = |file: &String| *file == path || file.starts_with(&format!("{path}/"));
        if !files.iter().any(is_in) && !ignored.contains(&path) {
            problems.push(problem(readme, text, line, name, format!("there is no `{path}`")));
        }
        named.insert(path);
    }
    for beside in folders(folder, files) {
        let inside = format!("{beside}/");
        if !named.iter().any(|path| *path == beside || path.starts_with(&inside)) {
            let message = format!("the map does not name the folder `{beside}`");
            problems.push(problem(readme, text, header, "|", message));
        }
    }
    problems
}

/// The line of the first map's header, and the rows of all maps. Rows that name no relative path
/// are left out; without any row there is no map.
fn rows(text: &str) -> Option<(usize, Vec<Row<'_>>)> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut header, mut rows) = (None, Vec::new());
    for (index, line) in lines.iter().enumerate() {
        let is_table = lines.get(index + 1).is_some_and(|next| next.starts_with("|-"));
        if !is_table || !HEADERS.contains(&first_cell(line)) {
            continue;
        }
        let table = lines.iter().enumerate().skip(index + 2);
        let table = table.take_while(|(_, line)| line.starts_with('|'));
        let table = table.map(|(index, line)| (index + 1, paths(first_cell(line))));
        let table: Vec<Row> = table.filter(|(_, paths)| !paths.is_empty()).collect();
        if !table.is_empty() {
            header.get_or_insert(index + 1);
            rows.extend(table);
        }
    }
    Some((header?, rows))
}

fn first_cell(line: &str) -> &str {
    line.split('|').nth(1).unwrap_or_default().trim()
}

/// The relative paths in a cell, each cut at a wildcard (`…` or `*`).
fn paths(cell: &str) -> Vec<&str> {
    let parts: Vec<&str> = cell.split('`').collect();
    let names = parts.chunks_exact(2).enumerate().map(|(index, part)| {
        let target = parts.get(2 * index + 2).and_then(|behind| linked(behind));
        target.unwrap_or(part[1]).split(['…', '*']).next().unwrap_or_default()
    });
    names.filter(|name| !name.is_empty() && !name.starts_with('/')).collect()
}

/// The path of the link whose text ends before `behind`.
fn linked(behind: &str) -> Option<&str> {
    let (target, _) = behind.strip_prefix("](")?.split_once(')')?;
    let path = target.split('#').next().unwrap_or_default();
    (!path.is_empty() && !path.contains("://")).then_some(path)
}

/// The path of `name` in `folder`, from the checkout's root.
fn joined(folder: &str, name: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The folders in `folder` that contain files of git, except hidden ones.
fn folders(folder: &str, files: &[String]) -> BTreeSet<String> {
    let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let names = files.iter().filter_map(|file| {
        let (name, _) = file.strip_prefix(&inside)?.split_once('/')?;
        (!name.starts_with('.')).then(|| format!("{inside}{name}"))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(readme: &str, text: &str) -> Vec<String> {
        let files = ["a/README.md", "a/one/x.rs", "a/two/y.rs", "a/.hidden/z", "b/c.rs"];
        let problems = problems(readme, text, &files.map(str::to_owned), &["out".into()].into());
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn a_map_that_names_each_folder_and_existing_paths_is_accepted() {
        let map =
            "| folder | holds |\n|---|---|\n| [`one/`](one/x.rs) | x |\n| `two`, `../b/` | |\n";
        assert_eq!(messages("a/README.md", map), [""; 0]);
        let map = "| crate | holds |\n|---|---|\n| `a/…`, `b` | |\n| `out/` | |\n";
        assert_eq!(messages("README.md", map), [""; 0]);
        let map = "| crate | |\n|---|---|\n| [`x`](one/x.rs) | |\n| [`two`](#two) | |\n";
        assert_eq!(messages("a/README.md", map), [""; 0]);
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let map = "| folder | |\n|---|---|\n| `one/`, `gone/` | |\n| `two/` | `no path` |\n";
        assert_eq!(messages("a/README.md", map), ["there is no `a/gone`"]);
    }

    #[test]
    fn a_folder_that_the_maps_do_not_name_is_found() {
        let map = "| component | |\n|---|---|\n| `one` | |\n\n\
                   | crate | |\n|---|---|\n| `one` | |\n";
        assert_eq!(messages("a/README.md", map), ["the map does not name the folder `a/two`"]);
    }

    #[test]
    fn other_tables_and_tables_of_absolute_paths_are_not_maps() {
        let text = "| key | |\n|---|---|\n| `gone` | |\n\n\
                    | folder | |\n|---|---|\n| `/run` | |\n";
        assert_eq!(messages("a/README.md", text), [""; 0]);
    }
}
