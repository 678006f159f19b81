//! The node document sets what no resource sets.

use super::node::Node;
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;

/// The document on DATA, and its text. The image does not allow the last parameter.
pub const FILE: &str = "osbuild/node.toml";
pub const TEXT: &str = "time-servers = [\"document.example\"]\n\n[kernel-parameters]\n\
                        \"vm.dirty_ratio\" = 33\n\"kernel.panic\" = 0\n";

/// Its time server, as the file of time servers has it.
pub const TIME_SERVER: &str = "document.example";

pub fn is_in_effect(node: &Node, running: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<()> {
    let found = node.read("/proc/sys/vm/dirty_ratio")?;
    outcome.check("the node document sets a kernel parameter", found == "33", || found);
    let found = node.read("/proc/sys/kernel/panic")?;
    outcome.check("it sets none that the image does not allow", found == "10", || found);
    running.wait_until_printed("settings: the image does not allow `kernel.panic` to be set")
}
