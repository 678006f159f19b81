//! What a release is made of.

use crate::engine::digest::Digest;
use crate::plan::{Date, Locked, Plan, Source};

/// The products of a build, and what they were built from.
pub struct Parts<'a> {
    /// What was built.
    pub plan: &'a Plan<Locked>,
    /// The signed UKI.
    pub node: Vec<u8>,
    /// What the firmware starts, signed.
    pub boot: Vec<u8>,
    /// The day of the release.
    pub date: Date,
    /// What of the project was checked out; none where no commit says it.
    pub commit: Option<Commit>,
}

/// A commit of git, and whether that is all that the project was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name in hexadecimal.
    pub id: String,
    /// Whether files differed from it, or were not in it; none if git did not say.
    pub is_dirty: Option<bool>,
}

impl Parts<'_> {
    /// The lock as it is in the project.
    pub(super) fn lock(&self) -> String {
        self.plan.lock.get().print()
    }

    /// Every input.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.plan.sources()
    }

    /// The digests of the UKI and of what the firmware starts.
    pub(super) fn programs(&self) -> [Digest; 2] {
        [Digest::of(&self.node), Digest::of(&self.boot)]
    }
}
