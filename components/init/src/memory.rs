//! Whether the machine has the memory that its board asks for.

use osbuild_abi::cmdline::{MIN_RAM_MIB, value};
use osbuild_abi::console::LOW_RAM;
use osbuild_failure::Outcome;
use rustix::system::sysinfo;

use crate::node::Node;

/// Says so on the console when there is too little.
pub fn check(node: &mut Node) -> Outcome {
    let have_mib = total_mib();
    let wanted = value(&node.command_line, MIN_RAM_MIB).and_then(|text| text.parse().ok());
    if let Some(wanted_mib) = wanted.filter(|wanted_mib| too_little(have_mib, *wanted_mib)) {
        node.console
            .line(&format!("{LOW_RAM}: {have_mib} MiB, the board asks for {wanted_mib} MiB"));
    }
    Ok(())
}

/// The machine's memory in MiB, without what the kernel itself takes.
pub fn total_mib() -> u64 {
    let info = sysinfo();
    (info.totalram * u64::from(info.mem_unit)) >> 20
}

/// A kernel shows less than is built in: itself, its page table and the firmware take up to a
/// sixteenth.
fn too_little(have_mib: u64, wanted_mib: u64) -> bool {
    have_mib < wanted_mib - wanted_mib / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_just_what_the_board_asks_for_is_enough() {
        assert!(!too_little(1967, 2048));
        assert!(!too_little(0, 0));
    }

    #[test]
    fn half_of_it_is_too_little() {
        assert!(too_little(1007, 2048));
    }
}
