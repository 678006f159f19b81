//! The parts of a release.

use crate::engine::digest::Digest;
use crate::engine::executor::Made;
use crate::plan::{Date, Locked, Plan, Source};
use std::collections::BTreeMap;

/// The products of a build, and their origin.
pub struct Parts<'a> {
    /// The plan of the build.
    pub plan: &'a Plan<Locked>,
    /// The values that the command line set, by their keys in the recipe.
    pub set: BTreeMap<String, String>,
    /// The signed UKI.
    pub node: Vec<u8>,
    /// The signed slotboot.
    pub boot: Vec<u8>,
    /// The day of the release.
    pub date: Date,
    /// The commit of the project; `None` outside a git repository.
    pub commit: Option<Commit>,
    /// Where the result of each step of the build was made, by the name of the step.
    pub made: BTreeMap<String, Made>,
}

/// A git commit of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its hash in hexadecimal.
    pub id: String,
    /// Whether the working tree had other changes or untracked files, except in the folders of the
    /// release itself and of its sources and signatures; `None` if unknown.
    pub is_dirty: Option<bool>,
}

impl Commit {
    /// This commit at the end of a build that began with it. If another one is checked out by then,
    /// the build may have read files of both, so this one counts as changed.
    pub fn until(self, end: Option<Commit>) -> Self {
        let is_dirty = match end {
            Some(end) if end.id == self.id => match (self.is_dirty, end.is_dirty) {
                (Some(before), Some(after)) => Some(before || after),
                (known, other) => known.or(other).filter(|is_dirty| *is_dirty),
            },
            _ => Some(true),
        };
        Commit { is_dirty, ..self }
    }
}

impl Parts<'_> {
    /// The text of the lock.
    pub(super) fn lock(&self) -> String {
        self.plan.lock.get().print()
    }

    /// Every input.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.plan.sources()
    }

    /// The digests of the UKI and of slotboot.
    pub(super) fn programs(&self) -> [Digest; 2] {
        [Digest::of(&self.node), Digest::of(&self.boot)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_unchanged_only_if_it_was_so_before_and_after_the_build() {
        let commit = |id: &str, is_dirty| Commit { id: id.to_owned(), is_dirty };
        let until = |before, end| commit("a", before).until(end).is_dirty;
        assert_eq!(until(Some(false), Some(commit("a", Some(false)))), Some(false));
        assert_eq!(until(Some(false), Some(commit("a", Some(true)))), Some(true));
        assert_eq!(until(Some(true), Some(commit("a", Some(false)))), Some(true));
        assert_eq!(until(Some(false), Some(commit("a", None))), None);
        assert_eq!(until(None, Some(commit("a", Some(true)))), Some(true));
        assert_eq!(until(Some(false), Some(commit("b", Some(false)))), Some(true));
        assert_eq!(until(None, None), Some(true));
    }
}
