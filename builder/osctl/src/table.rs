//! Tables for people.

use crate::error::printable;
use crate::resource;
use osbuild_cosi::resource::Resource;
use osbuild_cosi::resource::meta::resource_definition_spec::PrintColumn;
use serde_json::Value;
use std::fmt::Write;

/// The spaces between two columns.
const GAP: &str = "  ";

/// A table that grows row by row. A column is as wide as its widest cell so far.
pub struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// The lines of a table with these rows, the first of which has the names of the columns.
    pub fn with(rows: &[Vec<String>]) -> (Table, Vec<String>) {
        let mut table = Table { widths: Vec::new() };
        rows.iter().for_each(|row| table.fit(row));
        let lines = rows.iter().map(|row| table.line(row)).collect();
        (table, lines)
    }

    /// The line of another row.
    pub fn add(&mut self, row: &[String]) -> String {
        self.fit(row);
        self.line(row)
    }

    fn fit(&mut self, row: &[String]) {
        self.widths.resize(self.widths.len().max(row.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&self.widths) {
            write!(line, "{cell:width$}{GAP}").expect("a string accepts every write");
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// How much a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The columns that most people need.
    Normal,
    /// Owners, times and labels, too.
    Wide,
}

/// The names of the columns of resources.
pub fn titles(columns: &[PrintColumn], width: Width) -> Vec<String> {
    let own = columns.iter().map(|column| printable(&column.name).to_uppercase());
    let wide = match width {
        Width::Normal => [].as_slice(),
        Width::Wide => &["OWNER", "UPDATED", "LABELS"],
    };
    let wide = wide.iter().map(|&title| title.to_owned());
    ["ID", "VERSION", "PHASE"].map(str::to_owned).into_iter().chain(own).chain(wide).collect()
}

/// The cells of a resource.
pub fn row(resource: &Resource, columns: &[PrintColumn], width: Width) -> Vec<String> {
    let metadata = resource::metadata(resource);
    let wide = match width {
        Width::Normal => Vec::new(),
        Width::Wide => {
            let updated = resource::time(metadata.updated.or(metadata.created));
            let labels = resource::pairs(&metadata.labels);
            vec![metadata.owner, updated.unwrap_or_default(), labels.join(",")]
        }
    };
    let spec = resource::spec(resource);
    let own = columns.iter().map(|column| cell(&spec, &column.json_path));
    let common = [metadata.id, metadata.version, metadata.phase];
    common.into_iter().chain(own).chain(wide).map(|text| printable(&text)).collect()
}

/// The text at a path of the form `{.field.field}`, where `field[:]` is all values of a list. A
/// path of another form, and one that leads nowhere, has none.
fn cell(spec: &Value, path: &str) -> String {
    let path = path.strip_prefix("{.").and_then(|path| path.strip_suffix('}'));
    let Some(path) = path else { return String::new() };
    let found = path.split('.').fold(vec![spec], |found, field| {
        let (name, is_list) = field.strip_suffix("[:]").map_or((field, false), |name| (name, true));
        let values = found.into_iter().filter_map(|value| value.get(name));
        let all = values.flat_map(|value| match value {
            Value::Array(values) if is_list => values.iter().collect(),
            value => vec![value],
        });
        all.collect()
    });
    found.into_iter().map(text).collect::<Vec<_>>().join(",")
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let (mut table, lines) = Table::with(&[row(["ID", "VALUE"]), row(["größer", "1"])]);
        assert_eq!(lines, ["ID      VALUE", "größer  1"]);
        assert_eq!(table.add(&row(["much longer", "2"])), "much longer  2");
        assert_eq!(table.add(&row(["a", "3"])), "a            3");
    }

    #[test]
    fn a_cell_is_read_by_its_path() {
        let spec = json!({
            "key": "a",
            "list": ["b", 1],
            "deep": { "er": true },
            "each": [{ "name": "c" }, { "name": "d" }, {}],
        });
        for (path, text) in [
            ("{.key}", "a"),
            ("{.list[:]}", "b,1"),
            ("{.list}", "b,1"),
            ("{.deep.er}", "true"),
            ("{.each[:].name}", "c,d"),
            ("{.each.name}", ""),
            ("{.none}", ""),
            ("{.key.none}", ""),
            ("{.list[0]}", ""),
            ("key", ""),
        ] {
            assert_eq!(cell(&spec, path), text, "{path}");
        }
    }
}
