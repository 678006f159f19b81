//! The minimum security epoch that this machine starts, in a non-volatile variable that the
//! firmware hides from the running system.

use alloc::string::{String, ToString};

use osbuild_abi::slot::{FLOOR_VARIABLE, VENDOR};
use osbuild_formats::epoch;
use uefi::runtime::{self, VariableAttributes, VariableVendor};
use uefi::{CString16, Guid};

/// The attributes of slotboot's own variable. A variable with other attributes is not slotboot's:
/// the running system can create variables, but only with runtime access.
const OURS: VariableAttributes =
    VariableAttributes::NON_VOLATILE.union(VariableAttributes::BOOTSERVICE_ACCESS);

/// Reads the minimum epoch; 0 if the variable does not exist or cannot be read.
pub fn read() -> u32 {
    let Ok((name, vendor)) = variable() else { return 0 };
    let mut buffer = [0; 16];
    match runtime::get_variable(&name, &vendor, &mut buffer) {
        Ok((text, OURS)) => epoch::parse(text).unwrap_or(0),
        _ => 0,
    }
}

/// Writes the minimum epoch, after removing a variable that is not slotboot's.
pub fn write(floor: u32) -> Result<(), String> {
    let (name, vendor) = variable()?;
    let mut buffer = [0; 16];
    if !matches!(runtime::get_variable(&name, &vendor, &mut buffer), Ok((_, OURS))) {
        // Usually there is nothing to remove.
        let _ = runtime::delete_variable(&name, &vendor);
    }
    runtime::set_variable(&name, &vendor, OURS, epoch::text(floor).as_bytes())
        .map_err(|error| error.to_string())
}

fn variable() -> Result<(CString16, VariableVendor), String> {
    let name = CString16::try_from(FLOOR_VARIABLE).map_err(|error| error.to_string())?;
    Ok((name, VariableVendor(Guid::try_parse(VENDOR).map_err(|error| error.to_string())?)))
}
