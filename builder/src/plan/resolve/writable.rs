//! Writable paths that a recipe declares, and that they leave alone what the node keeps to itself.

use super::Resolver;
use crate::error::Problem;
use crate::plan::document::{Entry, Node, Value};
use crate::plan::{Backing, WritablePath};
use osbuild_abi::declared::{Refusal, overlap, refusal};

impl Resolver<'_> {
    /// The section `[writable]`, in order of path.
    pub(super) fn writable(&mut self, recipe: &Node) -> Vec<WritablePath> {
        let mut declared: Vec<(WritablePath, &Entry)> = Vec::new();
        for (path, entry) in recipe.entries_of("writable") {
            self.note(format!("writable.{path}"), &entry.key);
            self.may_be_declared(path, entry);
            let Some(read) = writable_path(path, &entry.node) else { continue };
            if let Some((other, _)) = declared.iter().find(|(other, _)| overlap(&other.path, path))
            {
                let problem = Problem::new(format!(
                    "`{path}` overlaps `{}`, which is declared too",
                    other.path
                ));
                let hint = "declare the one above, or folders beside each other: each is mounted on a folder of the read-only root";
                self.problems.push(problem.at(entry.key.place()).hint(hint));
            }
            let shares = |(other, _): &&(WritablePath, &Entry)| matches!((&other.backing, &read.backing), (Backing::Data(one), Backing::Data(other)) if one == other);
            if let Some((other, _)) = declared.iter().find(shares) {
                let problem =
                    Problem::new(format!("`{path}` and `{}` have one folder of DATA", other.path));
                self.problems.push(
                    problem
                        .at(entry.node.spot.place())
                        .hint("give one of them another name under `data`"),
                );
            }
            declared.push((read, entry));
        }
        declared.into_iter().map(|(path, _)| path).collect()
    }

    fn may_be_declared(&mut self, path: &str, entry: &Entry) {
        let problem =
            Problem::new(format!("`{path}` cannot be declared as writable")).at(entry.key.place());
        let problem = match refusal(path) {
            // The reader has said so already.
            None | Some(Refusal::Malformed) => return,
            Some(Refusal::Reserved(folder)) => {
                problem.cause(format!("`/{folder}` is the node's own"))
            }
            Some(Refusal::Overlaps(row)) if path.starts_with(row.path) => problem
                .cause(format!("`{}` is writable on every node", row.path))
                .hint("take the entry out: nothing is needed"),
            Some(Refusal::Overlaps(row)) => problem
                .cause(format!("`{}`, which is writable on every node, lies below it", row.path))
                .hint("declare the folders below it that pods ask for"),
        };
        self.problems.push(problem);
    }
}

/// An entry, unless the reader has found fault with it.
fn writable_path(path: &str, node: &Node) -> Option<WritablePath> {
    let backing = match (node.text_of("data"), node.get("memory-mib").and_then(Node::integer)) {
        (Some(folder), _) => Backing::Data(folder.to_owned()),
        (None, Some(mib)) => Backing::Memory(u32::try_from(mib).ok()?),
        (None, None) => return None,
    };
    let mode = match node.get("mode")?.value {
        Value::Integer { value, radix: 8 } => u32::try_from(value).ok()?,
        _ => return None,
    };
    let exec = matches!(node.get("exec").map(|exec| &exec.value), Some(Value::Flag(true)));
    Some(WritablePath { path: path.to_owned(), backing, mode, exec })
}
