//! The output of a verb for one node, and for several nodes together.

use super::{json_of, lines_of, print};
use crate::error::{Result, printable};
use crate::table::Table;
use serde_json::{Map, Value};

/// The output of a verb.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The rows of a table. The first has the names of the columns.
    Table(Vec<Vec<String>>),
    /// Lines that stand for themselves.
    Lines(Vec<String>),
    /// Data.
    Json(Value),
    /// YAML documents with `---` between.
    Yaml(String),
    /// A graph in the language of Mermaid.
    Mermaid(String),
    /// Another text of several lines.
    Text(String),
}

impl Output {
    /// Prints the output.
    pub fn print(self) -> Result<()> {
        print(&self.text())
    }

    /// The text that is printed.
    pub fn text(self) -> String {
        match self {
            Output::Table(rows) => lines_of(&Table::with(&rows).1),
            Output::Lines(lines) => lines_of(&lines),
            Output::Json(value) => json_of(&value),
            Output::Yaml(text) | Output::Mermaid(text) | Output::Text(text) => text,
        }
    }

    /// Merges the outputs of several nodes. Each has the name of its node: in a column of a table
    /// and before a line, as a key of data, and in a comment before a text.
    pub fn of_several(outputs: Vec<(String, Output)>) -> Vec<Output> {
        let (mut rows, mut titles, mut data) = (Vec::new(), Vec::new(), Map::new());
        let (mut documents, mut texts) = (Vec::new(), Vec::new());
        for (node, output) in outputs {
            let row = |first: &str, rest: &[String]| [&[printable(first)], rest].concat();
            match output {
                Output::Table(table) => {
                    let mut table = table.into_iter();
                    // Nodes of different releases may have different columns.
                    let next = table.next().unwrap_or_default();
                    if next != titles {
                        rows.push(row("NODE", &next));
                        titles = next;
                    }
                    rows.extend(table.map(|cells| row(&node, &cells)));
                }
                Output::Lines(lines) => {
                    rows.extend(lines.into_iter().map(|line| row(&node, &[line])));
                }
                Output::Json(value) => drop(data.insert(node, value)),
                Output::Yaml(text) => documents.push(under("#", &node, &text)),
                Output::Mermaid(text) => texts.push(under("%%", &node, &text)),
                Output::Text(text) => texts.push(under("#", &node, &text)),
            }
        }
        let mut all = Vec::new();
        all.extend((!rows.is_empty()).then_some(Output::Table(rows)));
        all.extend((!data.is_empty()).then_some(Output::Json(Value::Object(data))));
        all.extend((!documents.is_empty()).then(|| Output::Yaml(documents.join("---\n"))));
        all.extend((!texts.is_empty()).then(|| Output::Text(texts.join("\n"))));
        all
    }
}

/// The text under its node, which is a comment in the language of the text.
fn under(mark: &str, node: &str, text: &str) -> String {
    format!("{mark} node: {}\n{text}", printable(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn several(outputs: [Output; 2]) -> Output {
        let named = ["a", "b"].map(str::to_owned).into_iter().zip(outputs).collect();
        let [one] = Output::of_several(named).try_into().unwrap();
        one
    }

    fn table(rows: &[&[&str]]) -> Output {
        let row = |row: &&[&str]| row.iter().map(|&cell| cell.to_owned()).collect();
        Output::Table(rows.iter().map(row).collect())
    }

    #[test]
    fn a_table_of_several_nodes_has_a_column_for_them() {
        let one = table(&[&["ID", "X"], &["1", "x"]]);
        let both = table(&[&["NODE", "ID", "X"], &["a", "1", "x"], &["b", "1", "x"]]);
        assert_eq!(several([one.clone(), one.clone()]), both);
        let other = table(&[&["ID"], &["1"]]);
        let rows = table(&[&["NODE", "ID", "X"], &["a", "1", "x"], &["NODE", "ID"], &["b", "1"]]);
        assert_eq!(several([one, other]), rows);
    }

    #[test]
    fn every_form_names_the_node() {
        let lines = |line: &str| Output::Lines(vec![line.to_owned()]);
        assert_eq!(several([lines("x"), lines("y")]), table(&[&["a", "x"], &["b", "y"]]));
        let data = [json!([1]), json!([])].map(Output::Json);
        assert_eq!(several(data), Output::Json(json!({ "a": [1], "b": [] })));
        let texts = ["x: 1\n", "y: 1\n"].map(str::to_owned);
        let text = |separator| format!("# node: a\nx: 1\n{separator}# node: b\ny: 1\n");
        assert_eq!(several(texts.clone().map(Output::Yaml)), Output::Yaml(text("---\n")));
        assert_eq!(several(texts.clone().map(Output::Text)), Output::Text(text("\n")));
        let graphs = text("\n").replace("# ", "%% ");
        assert_eq!(several(texts.map(Output::Mermaid)), Output::Text(graphs));
        assert_eq!(Output::of_several(Vec::new()), []);
    }
}
