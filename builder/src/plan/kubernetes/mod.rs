//! The versions of Kubernetes that a node can run, and the rules for them.

mod date;
pub mod releases;
pub mod skew;
mod version;

pub use date::Date;
pub use releases::{Release, Releases};
pub use version::{Minor, Version};

/// The versions that must fit each other, and the exception that the recipe asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// The kubelet's version.
    pub kubelet: Version,
    /// containerd's version.
    pub containerd: Version,
    /// Minors of the API servers that the node must be able to join.
    pub api_servers: Vec<Minor>,
    /// Why the kubelet is not the pegged one.
    pub exception: Option<Exception>,
}

/// A dated exception to the peg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Why.
    pub reason: String,
    /// The last day on which it holds.
    pub until: Date,
}
