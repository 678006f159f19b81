//! The stick that installs a machine.

/// The component with the installer's pod. A recipe has it if and only if it has something to
/// install.
pub const COMPONENT: &str = "installer";

/// The installer's settings, on the system partition of the stick, where any computer can edit
/// them.
pub const SETTINGS: &str = "/installer.toml";

/// Name of the UEFI variable with the GUID of the system partition that the installer has made the
/// firmware boot. It is non-volatile; its vendor is [`VENDOR`](crate::slot::VENDOR).
pub const INSTALLED_VARIABLE: &str = "OsbuildInstalled";
