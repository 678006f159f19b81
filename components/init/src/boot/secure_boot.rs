//! Whether the firmware verifies signatures (Secure Boot).

use std::fs;
use std::path::Path;

use osbuild_abi::console::INSECURE;
use osbuild_abi::paths::FIRMWARE_VARIABLES;

use crate::variable::is_one;

/// The vendor of the variables that UEFI itself defines (UEFI 2.10, 3.3).
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// The state of Secure Boot in the firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecureBoot {
    /// The firmware refuses unsigned code.
    On,
    /// The firmware starts any code, or there is no UEFI firmware.
    #[default]
    Off,
    /// The firmware has no keys yet: it starts any code and accepts any keys.
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

    /// The warning for the console, unless signatures are enforced.
    pub fn warning(self) -> Option<String> {
        let word = self.word();
        (self != Self::On).then(|| format!("{INSECURE}{word}: this machine starts unsigned code"))
    }

    fn of(secure_boot: bool, setup_mode: bool) -> Self {
        match (secure_boot, setup_mode) {
            (_, true) => Self::SetupMode,
            (true, false) => Self::On,
            (false, false) => Self::Off,
        }
    }
}

/// Asks the firmware.
pub fn observe() -> SecureBoot {
    let variable =
        |name: &str| fs::read(Path::new(FIRMWARE_VARIABLES).join(format!("{name}-{GLOBAL}")));
    let is_set = |name: &str| variable(name).is_ok_and(|bytes| is_one(&bytes));
    SecureBoot::of(is_set("SecureBoot"), is_set("SetupMode"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_mode_enforces_nothing() {
        assert_eq!(SecureBoot::of(true, false), SecureBoot::On);
        assert_eq!(SecureBoot::of(false, false), SecureBoot::Off);
        assert_eq!(SecureBoot::of(true, true), SecureBoot::SetupMode);
    }
}
