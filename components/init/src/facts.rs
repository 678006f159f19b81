//! The facts that `init` finds about this boot. No fact changes after the phase that finds it.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::boot::command_line::CommandLine;
use crate::boot::secure_boot::SecureBoot;
use crate::slot::boot_source::BootSource;

/// The facts, each empty until the boot has found it.
#[derive(Default)]
pub struct Facts {
    /// The kernel's command line, found by the phase `mounts`.
    pub command_line: OnceCell<CommandLine>,
    /// The state of Secure Boot, found by the phase `secure-boot`.
    pub secure_boot: OnceCell<SecureBoot>,
    /// The disk and the slot, found by the phases `data` and `slot`.
    pub boot_source: Arc<BootSource>,
}

impl Facts {
    /// The command line; without any value before the phase `mounts`.
    pub fn command_line(&self) -> CommandLine {
        self.command_line.get().cloned().unwrap_or_default()
    }

    /// The state of Secure Boot; `Off` before the phase `secure-boot`.
    pub fn secure_boot(&self) -> SecureBoot {
        self.secure_boot.get().copied().unwrap_or_default()
    }
}
