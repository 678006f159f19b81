//! Network links, as far as the host has to do with them: only the loopback. All others belong to a pod.

use osbuild_failure::{Explain, Outcome};

use crate::node::Node;
use crate::sys;

/// Sets the loopback up; the kernel gives it its addresses.
pub fn loopback_up(_: &mut Node) -> Outcome {
    sys::link_up("lo").explain("set `lo` up")
}
