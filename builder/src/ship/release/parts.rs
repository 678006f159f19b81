//! What a release is made of.

use crate::plan::{Date, Locked, Plan, Source};
use crate::produce::digest::Digest;

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
}

impl Parts<'_> {
    /// The lock as it is in the project.
    pub(super) fn lock(&self) -> String {
        self.plan.lock.get().print()
    }

    /// Every input.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.plan.lock.get().sources(&self.plan.wanted.crates)
    }

    /// The digests of the UKI and of what the firmware starts.
    pub(super) fn programs(&self) -> [Digest; 2] {
        [Digest::of(&self.node), Digest::of(&self.boot)]
    }
}
