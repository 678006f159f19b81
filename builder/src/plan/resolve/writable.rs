//! The writable paths that a recipe declares. They must not overlap those that the node reserves.

use super::Resolver;
use crate::error::Problem;
use crate::plan::document::{Located, Spot};
use crate::plan::keys::{Mode, RecipeFile, WritableEntry};
use crate::plan::{Backing, WritablePath};
use osbuild_abi::declared::{Refusal, overlap, refusal};

impl Resolver<'_> {
    /// The section `[writable]`, in order of path.
    pub(super) fn writable(&mut self, recipe: &RecipeFile) -> Vec<WritablePath> {
        let mut declared: Vec<WritablePath> = Vec::new();
        for (path, entry) in recipe.writable.iter().flat_map(|paths| paths.iter()) {
            self.note(format!("writable.{}", &**path), &entry.key);
            self.check_writable(path, &entry.key);
            let Some(read) = writable_path(path, entry) else { continue };
            mode(entry).iter().for_each(|mode| self.check_owner(path, mode, true));
            self.check_distinct(&read, entry, &declared);
            declared.push(read);
        }
        declared
    }

    fn check_distinct(
        &mut self,
        path: &WritablePath,
        entry: &Located<WritableEntry>,
        earlier: &[WritablePath],
    ) {
        let WritablePath { path, backing, .. } = path;
        if let Some(other) = earlier.iter().find(|other| overlap(&other.path, path)) {
            let problem =
                Problem::new(format!("`{path}` overlaps `{}`, also declared here", other.path));
            let hint = "declare the upper path, or separate folders: each is mounted on a folder \
                        of the read-only root";
            self.problems.push(problem.at(entry.key.place()).hint(hint));
        }
        let shares = |other: &&WritablePath| {
            matches!(backing, Backing::Data(_)) && other.backing == *backing
        };
        if let Some(other) = earlier.iter().find(shares) {
            let problem =
                Problem::new(format!("`{path}` and `{}` use one folder of DATA", other.path));
            let hint = "give one of them another name under `data`";
            self.problems.push(problem.at(entry.spot.place()).hint(hint));
        }
    }

    fn check_writable(&mut self, path: &str, key: &Spot) {
        let problem =
            Problem::new(format!("`{path}` cannot be declared as writable")).at(key.place());
        let problem = match refusal(path) {
            // The strict reader has reported a malformed path.
            None | Some(Refusal::Malformed) => return,
            Some(Refusal::Reserved(folder)) => {
                problem.cause(format!("`/{folder}` is reserved for the node"))
            }
            Some(Refusal::Overlaps(row)) if path.starts_with(row.path) => problem
                .cause(format!("`{}` is writable on every node", row.path))
                .hint("remove the entry: it is not needed"),
            Some(Refusal::Overlaps(row)) => problem
                .cause(format!("`{}`, which is writable on every node, is below it", row.path))
                .hint("declare the folders below it that pods need"),
        };
        self.problems.push(problem);
    }
}

/// The mode of an entry.
fn mode(entry: &WritableEntry) -> Option<&Located<Mode>> {
    match entry {
        WritableEntry::Data(table) => table.mode.as_ref(),
        WritableEntry::Memory(table) => table.mode.as_ref(),
    }
}

/// The path of an entry. `None` means that the strict reader has refused a value of it.
fn writable_path(path: &str, entry: &WritableEntry) -> Option<WritablePath> {
    let (backing, exec) = match entry {
        WritableEntry::Data(table) => {
            (Backing::Data(table.data.as_ref()?.to_string()), &table.exec)
        }
        WritableEntry::Memory(table) => {
            let mib = (&table.memory_mib.as_ref()?.value).into();
            (Backing::Memory(mib), &table.exec)
        }
    };
    let exec = exec.as_ref().is_some_and(|exec| exec.value);
    Some(WritablePath { path: path.to_owned(), backing, mode: mode(entry)?.0, exec })
}
