//! Whether the firmware starts only what is signed.

use std::fs;
use std::path::Path;

use osbuild_abi::console::INSECURE;
use osbuild_abi::paths::FIRMWARE_VARIABLES;
use osbuild_failure::Outcome;

use crate::node::Node;
use crate::variable::is_one;

/// The name of the phase.
pub const NAME: &str = "secure-boot";

/// The vendor of the variables that UEFI itself defines (UEFI 2.10, 3.3).
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// What the firmware does about signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecureBoot {
    /// It refuses what is not signed.
    On,
    /// It starts everything, or there is no UEFI firmware.
    #[default]
    Off,
    /// It has no keys yet, so it starts everything and takes whatever keys it is given.
    SetupMode,
}

impl SecureBoot {
    /// The word for it in `status`.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::SetupMode => "setup-mode",
        }
    }

    fn of(secure_boot: bool, setup_mode: bool) -> Self {
        match (secure_boot, setup_mode) {
            (_, true) => Self::SetupMode,
            (true, false) => Self::On,
            (false, false) => Self::Off,
        }
    }
}

/// Looks, and warns on the console where nothing is enforced.
pub fn look(node: &mut Node) -> Outcome {
    let variable =
        |name: &str| fs::read(Path::new(FIRMWARE_VARIABLES).join(format!("{name}-{GLOBAL}")));
    let says = |name: &str| variable(name).is_ok_and(|bytes| is_one(&bytes));
    node.secure_boot = SecureBoot::of(says("SecureBoot"), says("SetupMode"));
    if node.secure_boot != SecureBoot::On {
        node.console.line(&format!(
            "{INSECURE}{}: this machine starts whatever is on its disk",
            node.secure_boot.word()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_enforced_in_setup_mode_whatever_else_is_said() {
        assert_eq!(SecureBoot::of(true, false), SecureBoot::On);
        assert_eq!(SecureBoot::of(false, false), SecureBoot::Off);
        assert_eq!(SecureBoot::of(true, true), SecureBoot::SetupMode);
    }
}
