//! The node document sets what no resource sets.

use super::node::Node;
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;

/// The document on DATA.
pub const FILE: &str = "osbuild/node.toml";

/// Its text, which names this CA of clients. The image does not allow the last parameter.
pub fn text(clients: &str) -> String {
    format!(
        "time-servers = [\"{TIME_SERVER}\"]\n\n[kernel-parameters]\n\"vm.dirty_ratio\" = 33\n\
         \"kernel.panic\" = 0\n\n[api]\nclients = \"\"\"\n{clients}\"\"\"\n"
    )
}

/// Its time server, as the file of time servers has it.
pub const TIME_SERVER: &str = "document.example";

pub fn is_in_effect(node: &Node, running: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<()> {
    let found = node.read("/proc/sys/vm/dirty_ratio")?;
    outcome.check("the node document sets a kernel parameter", found == "33", || found);
    let found = node.read("/proc/sys/kernel/panic")?;
    outcome.check("it sets none that the image does not allow", found == "10", || found);
    running.wait_until_printed("settings: the image does not allow `kernel.panic` to be set")
}
