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
    /// Whether the working tree had other changes or untracked files; `None` if unknown.
    pub is_dirty: Option<bool>,
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
