//! A file, merged with those that it inherits from.

use super::Project;
use crate::error::{Problem, in_words};
use crate::plan::document::{Item, Located, Table as Items, Text, Value, nearest, parse};
use crate::plan::keys::check::{check, missing};
use crate::plan::keys::{Key, Need, Shape, Table};
use std::marker::PhantomData;
use std::sync::Arc;

/// A kind of file that can inherit, read into `T`.
pub struct Kind<T> {
    /// The word for it in messages.
    what: &'static str,
    /// The start of its paths.
    prefix: &'static str,
    /// The end of its paths.
    suffix: &'static str,
    /// Which values from the command line override those of its files; `None` for none.
    takes: Option<Takes>,
    table: PhantomData<fn() -> T>,
}

/// Whether a file, which is merged already, takes a key of the command line.
pub type Takes = fn(&Items, &str) -> bool;

impl<T> Kind<T> {
    /// The kind that messages call `what`, at paths with this prefix and suffix.
    pub const fn new(what: &'static str, prefix: &'static str, suffix: &'static str) -> Self {
        Kind { what, prefix, suffix, takes: None, table: PhantomData }
    }

    /// The same, with those values from the command line in place of its files' that it `takes`.
    pub const fn overridden(self, takes: Takes) -> Self {
        Kind { takes: Some(takes), ..self }
    }

    /// The path of the file of this name.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}{}", self.prefix, self.suffix)
    }

    /// The names of all files of this kind.
    pub fn names<'p>(&self, project: &'p Project) -> impl Iterator<Item = &'p str> {
        let (prefix, suffix) = (self.prefix, self.suffix);
        let name = move |path: &'p String| path.strip_prefix(prefix)?.strip_suffix(suffix);
        project.files.keys().filter_map(name).filter(|name| !name.contains('/'))
    }

    /// The problem that no file has this name.
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

impl<T: Table> Kind<T> {
    /// Reads a file of this kind with all that it inherits from. The problems of all these files
    /// are added to `problems`, and so are the needed keys that none of them has.
    ///
    /// `None` means that the file does not exist, which the caller reports.
    pub fn read(
        &self,
        project: &Project,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Located<T>> {
        let (item, is_incomplete) = self.merged(project, name, problems)?;
        if !is_incomplete {
            missing(&item, T::KEYS, problems);
        }
        item.read()
    }

    /// Reads a file like [`Kind::read`], but does not report the needed keys that are absent: it
    /// may exist only to be inherited from.
    pub fn read_part(
        &self,
        project: &Project,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Located<T>> {
        self.merged(project, name, problems)?.0.read()
    }

    /// The merged file, and whether parts of it could not be parsed.
    fn merged(
        &self,
        project: &Project,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<(Item, bool)> {
        let keys = T::KEYS;
        let (first, mut is_incomplete) = parse_file(project, &self.path(name), keys, problems)?;
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
                parse_file(project, &self.path(name), keys, problems).ok_or_else(absent)
            };
            match read {
                Ok((document, incomplete)) => {
                    chain.push(name.to_owned());
                    documents.push(document);
                    is_incomplete |= incomplete;
                }
                Err(problem) => {
                    problems.push(problem);
                    is_incomplete = true;
                    break;
                }
            }
        }
        let nothing = Item { value: Value::Table(Items::new()), ..documents.last()?.clone() };
        let whole = documents
            .into_iter()
            .rev()
            .fold(nothing, |parent, child| merge_tables(parent, child, keys, problems));
        Some((self.overridden_by(project, whole, problems), is_incomplete))
    }

    /// A merged file with those values of the command line that it takes.
    fn overridden_by(&self, project: &Project, whole: Item, problems: &mut Vec<Problem>) -> Item {
        let (Some(takes), Some(text)) = (self.takes, project.overrides.text()) else {
            return whole;
        };
        let (mut document, _) = parse_text(text, T::KEYS, problems);
        if let (Value::Table(values), Some(file)) = (&mut document.value, whole.table()) {
            values.retain(|key, _| takes(file, key));
        }
        // The places of the file remain those of the whole.
        let (key, spot) = (whole.key.clone(), whole.spot.clone());
        Item { key, spot, ..merge_tables(whole, document, T::KEYS, problems) }
    }
}

/// Reads one file without inheritance and checks it. `None` means that it does not exist.
pub fn read_file<T: Table>(
    project: &Project,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<Located<T>> {
    parse_file(project, path, T::KEYS, problems)?.0.read()
}

/// Parses one file and checks it. Beside it comes whether parts of it could not be parsed: then no
/// key can be called missing, and the file is not checked. `None` means that it does not exist.
fn parse_file(
    project: &Project,
    path: &str,
    keys: &'static [Key],
    problems: &mut Vec<Problem>,
) -> Option<(Item, bool)> {
    if !project.has(path) {
        return None;
    }
    let before = problems.len();
    let text = project.text(path, problems).unwrap_or_default().to_owned();
    let is_unreadable = problems.len() > before;
    let text = Arc::new(Text { name: path.to_owned(), text });
    let (document, is_incomplete) = parse_text(text, keys, problems);
    Some((document, is_unreadable || is_incomplete))
}

/// Parses a text and checks it, unless parts of it could not be parsed.
fn parse_text(text: Arc<Text>, keys: &'static [Key], problems: &mut Vec<Problem>) -> (Item, bool) {
    let before = problems.len();
    let document = parse(&text, problems);
    let is_incomplete = problems.len() > before;
    if !is_incomplete {
        check(&document, keys, problems);
    }
    (document, is_incomplete)
}

fn merge_tables(
    parent: Item,
    child: Item,
    keys: &'static [Key],
    problems: &mut Vec<Problem>,
) -> Item {
    match (parent.value, child.value) {
        (Value::Table(parent), Value::Table(over)) => {
            Item { value: Value::Table(merge(parent, over, keys, problems)), ..child }
        }
        (_, value) => Item { value, ..child },
    }
}

/// `child` over `parent`: sections are merged key by key, words of the kernel's command line are
/// added, entries with chosen names are replaced as a whole, and so is everything else.
fn merge(
    mut parent: Items,
    child: Items,
    keys: &'static [Key],
    problems: &mut Vec<Problem>,
) -> Items {
    for (name, over) in child {
        let key = keys.iter().find(|key| key.name == name);
        let merged = match (key.map(|key| &key.shape), parent.remove(&name)) {
            (_, Some(under)) if key.is_some_and(|key| key.need == Need::Extended) => {
                extend_words(under, over)
            }
            (Some(Shape::Table(keys)), Some(under)) if keys.iter().all(is_inherited) => {
                merge_tables(under, over, keys, problems)
            }
            (Some(Shape::Map { removable, .. }), under) => {
                merge_entries(under, over, *removable, problems)
            }
            _ => over,
        };
        parent.insert(name, merged);
    }
    parent
}

/// The words of `parent` and `child`, without those of `parent` that `child` sets anew.
fn extend_words(parent: Item, child: Item) -> Item {
    match (parent.value, child.value) {
        (Value::List(mut words), Value::List(over)) => {
            let is_set = |word: &Item| over.iter().any(|set| word_name(set) == word_name(word));
            words.retain(|word| !is_set(word));
            words.extend(over);
            Item { value: Value::List(words), ..child }
        }
        (_, value) => Item { value, ..child },
    }
}

/// The name of a word of the kernel's command line: the kernel reads `-` in it as `_`.
fn word_name(word: &Item) -> Option<String> {
    let name = word.text()?.split('=').next()?;
    Some(name.replace('-', "_"))
}

/// Whether a section with this key can be merged from several files. One whose keys must all be in
/// the same table cannot.
fn is_inherited(key: &Key) -> bool {
    key.need != Need::Required
}

fn merge_entries(
    parent: Option<Item>,
    child: Item,
    removable: bool,
    problems: &mut Vec<Problem>,
) -> Item {
    let Value::Table(over) = child.value else { return child };
    let mut under = match parent.map(|parent| parent.value) {
        Some(Value::Table(under)) => under,
        _ => Items::new(),
    };
    for (name, entry) in over {
        if !(removable && matches!(entry.value, Value::Flag(false))) {
            under.insert(name, entry);
        } else if under.remove(&name).is_none() {
            problems.push(
                Problem::new(format!("there is no inherited entry `{name}` to remove"))
                    .at(entry.key.place()),
            );
        }
    }
    Item { value: Value::Table(under), ..child }
}
