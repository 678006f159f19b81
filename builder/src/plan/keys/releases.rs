//! `components/kubelet/releases.toml`

use super::values::Map;
use crate::plan::{Date, Minor, Version};

table! {
    /// The table of Kubernetes' releases.
    ReleasesFile {
        /// The day on which the table was compared with upstream.
        checked: Required Date,
        /// Minors of Kubernetes.
        minors: Required Map<Minor, ReleaseTable>,
    }
}

table! {
    /// A minor.
    ReleaseTable {
        /// The newest patch.
        newest: Required Version,
        /// The day of the first release.
        released: Required Date,
        /// The last day of support.
        end_of_life: Required Date,
    }
}
