//! Grants for reboots: which nodes of a cluster may reboot for an update, and when.
//!
//! A node that has a release in its other slot asks by [annotations](annotations) on its own Node.
//! [`steps`] takes the nodes of the cluster, a [`Policy`] and the time, and returns what to do now.
//! It does no I/O and keeps no state: all of it is in the annotations, so the tool that calls it
//! may end at any time and be replaced.

#![forbid(unsafe_code)]

pub mod annotations;
mod fleet;
mod node;
mod policy;
mod step;

pub use node::{MAX_SKEW_S, Node, Outcome, Request};
pub use policy::{Policy, Share};
pub use step::{Step, steps};
