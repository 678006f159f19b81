//! The minors of Kubernetes whose control planes nodes join.

use super::modules;
use crate::check::Outcome;
use crate::image::{self, LAB};
use crate::site::Site;
use crate::vm::probe;
use osbuild::error::Result;
use std::path::PathBuf;

/// The programs of the minors after the peg, and the node that is updated to the next one. They are
/// compiled before any machine runs.
pub fn builds_the_newer_minors(site: &Site) -> Result<Outcome> {
    for recipe in [Minor::Next.recipe(), Minor::Newest.recipe(), probe::NEXT_RECIPE] {
        image::build(site, recipe)?;
    }
    Ok(Outcome::holds(Minor::Newest.version(site)?))
}

/// A minor of Kubernetes, from which all programs of a control plane are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Minor {
    /// The kubelet's own.
    Peg,
    /// The one after the peg.
    Next,
    /// The newest one, two after the peg.
    Newest,
}

impl Minor {
    /// The recipe of its programs.
    fn recipe(self) -> &'static str {
        match self {
            Self::Peg => LAB,
            Self::Next => "lab-next",
            Self::Newest => "lab-newest",
        }
    }

    /// Builds its programs from their lock.
    pub fn build(self, site: &Site) -> Result<()> {
        image::build(site, self.recipe()).map(drop)
    }

    /// The folder of its programs.
    pub fn bin(self, site: &Site) -> PathBuf {
        site.project().join("out").join(self.recipe()).join("bin")
    }

    /// The version that its recipe locks, as in `v1.35.8`.
    pub fn version(self, site: &Site) -> Result<String> {
        modules::version(&image::lock(site, self.recipe())?, "kubernetes")
    }
}
