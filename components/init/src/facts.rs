//! The facts that `init` finds about this boot. No fact changes after the phase that finds it.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::boot::command_line::CommandLine;
use crate::boot::security::Security;
use crate::slot::boot_source::BootSource;

/// The facts, each empty until the boot has found it.
#[derive(Default)]
pub struct Facts {
    /// The kernel's command line, found by the phase `mounts`.
    pub command_line: OnceCell<CommandLine>,
    /// The security state of the machine and the kernel, found by the phase `secure-boot`.
    pub security: OnceCell<Security>,
    /// The disk and the slot, found by the phases `data` and `slot`.
    pub boot_source: Arc<BootSource>,
}

impl Facts {
    /// The command line; without any value before the phase `mounts`.
    pub fn command_line(&self) -> CommandLine {
        self.command_line.get().cloned().unwrap_or_default()
    }

    /// The security state of the machine and the kernel; empty before the phase `secure-boot`.
    pub fn security(&self) -> Security {
        self.security.get().cloned().unwrap_or_default()
    }
}
