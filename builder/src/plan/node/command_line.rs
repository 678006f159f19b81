//! The kernel's command line of a node.

use super::NodeSpec;
use crate::plan::LockState;
use osbuild_abi::cmdline;

/// The longest command line in bytes: Linux keeps 2048 on both architectures, of which the last is
/// NUL (`COMMAND_LINE_SIZE`), and drops the rest.
pub const MAX_COMMAND_LINE: usize = 2047;

impl<L: LockState> NodeSpec<L> {
    /// The words of the board and the recipe, and the settings of `init`. `epoch` is that of the
    /// lock.
    pub fn command_line(&self, epoch: u64) -> String {
        let board = &self.board;
        let ours = [
            format!("{}={epoch}", cmdline::EPOCH),
            format!("{}={}", cmdline::SECURITY_EPOCH, self.security_epoch),
            format!("{}={}", cmdline::MIN_RAM_MIB, board.min_ram_mib),
            format!("{}={}", cmdline::GATE_HOLD, board.gate_hold_s),
            format!("{}={}", cmdline::GATE_DEADLINE, board.gate_deadline_s),
            format!("{}={}", cmdline::WATCHDOG, board.watchdog_s),
        ];
        let time_servers = (!self.time_servers.is_empty())
            .then(|| format!("{}={}", cmdline::TIME_SERVERS, self.time_servers.join(",")));
        let in_memory =
            self.installs.iter().map(|_| format!("{}={}", cmdline::DATA, cmdline::IN_MEMORY));
        let words = self.kernel.command_line.iter().cloned().chain(ours);
        words.chain(time_servers).chain(in_memory).collect::<Vec<_>>().join(" ")
    }
}
