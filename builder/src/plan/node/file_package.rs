//! A Debian package of which a node takes files as they are.

use crate::plan::lock::Pins;
use crate::plan::{LockState, Locked, Unlocked};

/// A Debian package of which the root or an image of a pod takes files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePackage<L: LockState = Unlocked> {
    /// Its name.
    pub name: String,
    /// The package of one version; `()` in a plan that is not locked.
    pub lock: L::Package,
}

impl FilePackage {
    /// The package with this name.
    pub fn named(name: impl Into<String>) -> Self {
        FilePackage { name: name.into(), lock: () }
    }

    /// The package for the node, with its entry from a lock.
    pub(in crate::plan) fn lock(self, pins: &Pins<'_>) -> FilePackage<Locked> {
        FilePackage { lock: pins.package(&self.name), name: self.name }
    }

    /// The package with a program that the build machine runs, with its entry from a lock.
    pub(in crate::plan) fn lock_program(self, pins: &Pins<'_>) -> FilePackage<Locked> {
        FilePackage { lock: pins.program(&self.name), name: self.name }
    }
}
