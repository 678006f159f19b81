//! What a recipe with `[programs]` resolves to: programs that run on the machine that builds, and
//! are in no image.

use super::{Architecture, GoBuild, Origins, Wanted};

/// Everything that a recipe of programs resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPrograms {
    /// The recipe's name: `lab`.
    pub recipe: String,
    /// The architecture of the machine that builds.
    pub architecture: Architecture,
    /// The programs, in order of file name.
    pub programs: Vec<HostProgram>,
    /// Everything that the lock has to pin.
    pub wanted: Wanted,
    /// Where each resolved value was written.
    pub origins: Origins,
}

/// One program for the machine that builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProgram {
    /// The name of its file in `out/<recipe>/bin/`.
    pub file: String,
    /// The component that it comes from.
    pub component: String,
    /// Its upstream version without `v`.
    pub version: String,
    /// How it is compiled. Two programs with equal values come from one compilation.
    pub build: GoBuild,
}
