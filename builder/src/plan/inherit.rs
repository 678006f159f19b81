//! A file and those that it inherits from, as one document.

use super::document::{self, Entry, Node, Table, Text, Value};
use super::nearest::nearest;
use super::project::Project;
use super::shape::{Key, Need, Shape};
use super::walk::{missing, walk};
use crate::error::{Problem, in_words};
use std::sync::Arc;

/// A kind of file that may inherit.
pub(super) struct Kind {
    /// What one is called.
    pub what: &'static str,
    /// What their paths start with.
    pub prefix: &'static str,
    /// What their paths end with.
    pub suffix: &'static str,
    /// Their keys.
    pub keys: &'static [Key],
}

impl Kind {
    /// The path of the file of this name.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}{}", self.prefix, self.suffix)
    }

    /// Reads a file of this kind with all that it inherits from. Every problem of every file is
    /// added to `problems`, and so is what is needed and stands in none of them.
    ///
    /// Nothing comes back when the file does not exist, which is the caller's to say.
    pub fn read(&self, project: &Project, name: &str, problems: &mut Vec<Problem>) -> Option<Node> {
        let (node, has_holes) = self.read_part(project, name, problems)?;
        if !has_holes {
            missing(&node, self.keys, problems);
        }
        Some(node)
    }

    /// As [`Kind::read`] for a file that may only be there to be inherited from. With it comes
    /// whether some of its text could not be read.
    pub fn read_part(
        &self,
        project: &Project,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<(Node, bool)> {
        let (first, mut has_holes) = read_file(project, &self.path(name), self.keys, problems)?;
        let mut chain = vec![name.to_owned()];
        let mut documents = vec![first];
        while let Some(parent) =
            documents.last().and_then(|document| document.get("inherit")).cloned()
        {
            let Some(name) = parent.text() else { break };
            let read = if chain.iter().any(|seen| seen == name) {
                chain.push(name.to_owned());
                let problem = Problem::new(format!("{} `{name}` inherits from itself", self.what))
                    .at(parent.spot.place());
                Err(problem.cause(format!("`{}`", chain.join("` inherits `"))))
            } else {
                let absent = || self.absent(project, name).at(parent.spot.place());
                read_file(project, &self.path(name), self.keys, problems).ok_or_else(absent)
            };
            match read {
                Ok((document, holes)) => {
                    chain.push(name.to_owned());
                    documents.push(document);
                    has_holes |= holes;
                }
                Err(problem) => {
                    problems.push(problem);
                    has_holes = true;
                    break;
                }
            }
        }
        let nothing =
            Node { spot: documents.last()?.spot.clone(), value: Value::Table(Table::new()) };
        let whole = documents
            .into_iter()
            .rev()
            .fold(nothing, |parent, child| merge_documents(parent, child, self.keys, problems));
        Some((whole, has_holes))
    }

    /// What there is of this kind, by name.
    pub fn names<'p>(&self, project: &'p Project) -> impl Iterator<Item = &'p str> {
        let (prefix, suffix) = (self.prefix, self.suffix);
        let name = move |path: &'p String| path.strip_prefix(prefix)?.strip_suffix(suffix);
        project.files.keys().filter_map(name).filter(|name| !name.contains('/'))
    }

    /// The problem that a name stands for nothing.
    pub fn absent(&self, project: &Project, name: &str) -> Problem {
        let problem = Problem::new(format!("no {} `{name}`", self.what))
            .cause(format!("there is no `{}`", self.path(name)));
        let names: Vec<&str> = self.names(project).collect();
        match nearest(name, names.iter().copied()) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint(format!("there are {}", in_words(names.into_iter()))),
        }
    }
}

/// Reads one file and compares it with its keys. With it comes whether it has holes: after an error
/// of syntax, what is there is right as far as it goes, but nothing can be said of what is not.
/// Nothing comes back when there is no such file.
pub(super) fn read_file(
    project: &Project,
    path: &str,
    keys: &'static [Key],
    problems: &mut Vec<Problem>,
) -> Option<(Node, bool)> {
    if !project.has(path) {
        return None;
    }
    let before = problems.len();
    let text = project.text(path, problems).unwrap_or_default().to_owned();
    let document = document::parse(&Arc::new(Text { name: path.to_owned(), text }), problems);
    let has_holes = problems.len() > before;
    if !has_holes {
        walk(&document, keys, problems);
    }
    Some((document, has_holes))
}

fn merge_documents(
    parent: Node,
    child: Node,
    keys: &'static [Key],
    problems: &mut Vec<Problem>,
) -> Node {
    match (parent.value, child.value) {
        (Value::Table(parent), Value::Table(over)) => {
            Node { spot: child.spot, value: Value::Table(merge(parent, over, keys, problems)) }
        }
        (_, value) => Node { spot: child.spot, value },
    }
}

/// `child` over `parent`: sections key by key, entries that somebody named as a whole, everything
/// else replaced.
fn merge(
    mut parent: Table,
    child: Table,
    keys: &'static [Key],
    problems: &mut Vec<Problem>,
) -> Table {
    for (name, over) in child {
        let shape = keys.iter().find(|key| key.name == name).map(|key| &key.shape);
        let merged = match (shape, parent.remove(&name)) {
            (Some(Shape::Table(keys)), Some(under)) if keys.iter().all(inherits) => Entry {
                key: over.key,
                node: merge_documents(under.node, over.node, keys, problems),
            },
            (Some(Shape::Map { .. }), under) => {
                Entry { key: over.key, node: merge_entries(under, over.node, problems) }
            }
            _ => over,
        };
        parent.insert(name, merged);
    }
    parent
}

/// Whether a section is put together of several files: one whose keys all have to stand together is
/// not.
fn inherits(key: &Key) -> bool {
    key.need != Need::Here
}

fn merge_entries(parent: Option<Entry>, child: Node, problems: &mut Vec<Problem>) -> Node {
    let Value::Table(over) = child.value else { return child };
    let mut under = match parent.map(|parent| parent.node.value) {
        Some(Value::Table(under)) => under,
        _ => Table::new(),
    };
    for (name, entry) in over {
        if matches!(entry.node.value, Value::Flag(false)) && under.remove(&name).is_none() {
            problems.push(
                Problem::new(format!(
                    "nothing is inherited under `{name}` that could be taken away"
                ))
                .at(entry.key.place()),
            );
        } else if !matches!(entry.node.value, Value::Flag(false)) {
            under.insert(name, entry);
        }
    }
    Node { spot: child.spot, value: Value::Table(under) }
}
