//! Powers the machine off or reboots it.

use std::thread;
use std::time::Duration;

use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::system::{RebootCommand, reboot};

use super::{READING_TIME, disks};
use crate::work::Work;

/// How the node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is powered off.
    PowerOff,
    /// It reboots.
    Reboot,
}

impl End {
    /// Its name on the console.
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerOff => "power off",
            Self::Reboot => "reboot",
        }
    }

    /// Does it at once. Data that is not on a disk yet is lost.
    pub fn now(self) -> ! {
        let _ = reboot(match self {
            Self::PowerOff => RebootCommand::PowerOff,
            Self::Reboot => RebootCommand::Restart,
        });
        // A machine that cannot do it stays as it is. PID 1 must not exit.
        loop {
            thread::sleep(READING_TIME);
        }
    }
}

/// Reboots without a node, once the failure can have been read on the console.
pub fn give_up_early() -> ! {
    thread::sleep(READING_TIME);
    Work::start(disks::sync_all).wait(Duration::from_secs(10));
    End::Reboot.now()
}

/// Whether PID 1 has any child, without reaping one.
pub fn has_children() -> bool {
    waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)
        .is_ok()
}
