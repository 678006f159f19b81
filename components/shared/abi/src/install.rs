//! The stick that installs a machine.

/// The component whose pod installs. A recipe has it if and only if it says what is to be
/// installed.
pub const COMPONENT: &str = "installer";

/// What the pod is to do, on the system partition of the stick, where any computer can edit it.
pub const SETTINGS: &str = "/installer.toml";

/// Name of the UEFI variable with the GUID of the system partition that the installer has told the
/// firmware to start. It persists; its vendor is [`VENDOR`](crate::slot::VENDOR).
pub const TOLD_VARIABLE: &str = "OsbuildInstalled";
