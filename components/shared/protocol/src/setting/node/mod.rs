//! Labels and taints of the node in its cluster.

mod label;
mod taint;
mod value;

pub use label::{LabelKey, NodeLabel, is_subdomain};
pub use taint::{NodeTaint, TaintEffect, TaintName};
pub use value::LabelValue;

/// The maximum number of labels, and that of taints, that `init` holds.
pub const MAX_LABELS: usize = 32;
/// See [`MAX_LABELS`].
pub const MAX_TAINTS: usize = 16;
