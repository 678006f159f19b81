//! The boot program.

/// A UEFI program of this workspace. The firmware starts it from the removable path of the EFI
/// system partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootProgram {
    /// The component that it comes from.
    pub component: String,
    /// The Cargo package.
    pub package: String,
    /// Its program.
    pub bin: String,
}
