//! The releases of Debian that packages come from.

use serde::{Deserialize, Serialize};

/// A release of Debian. A package of one need not run on the libraries of another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum DebianRelease {
    /// Debian 12: the sandbox, and everything of a node.
    #[default]
    Bookworm,
    /// Debian 13: programs of which Debian 12 has only versions that are too old.
    Trixie,
}

impl DebianRelease {
    /// Its name on Debian's mirrors.
    pub const fn name(self) -> &'static str {
        match self {
            DebianRelease::Bookworm => "bookworm",
            DebianRelease::Trixie => "trixie",
        }
    }

    /// Whether a lock leaves it out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
