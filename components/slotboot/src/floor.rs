//! The least security epoch that this machine starts, in a variable that persists and that the
//! firmware keeps from the system that runs.

use alloc::string::{String, ToString};

use osbuild_abi::slot::{FLOOR_VARIABLE, VENDOR};
use osbuild_formats::epoch;
use uefi::runtime::{self, VariableAttributes, VariableVendor};
use uefi::{CString16, Guid};

/// What makes the variable slotboot's own. One with other attributes was made by somebody else: the
/// system can make such that it sees.
const OURS: VariableAttributes =
    VariableAttributes::NON_VOLATILE.union(VariableAttributes::BOOTSERVICE_ACCESS);

/// The floor; 0 where there is none that can be read.
pub fn read() -> u32 {
    let Ok((name, vendor)) = variable() else { return 0 };
    let mut room = [0; 16];
    match runtime::get_variable(&name, &vendor, &mut room) {
        Ok((text, OURS)) => epoch::parse(text).unwrap_or(0),
        _ => 0,
    }
}

/// Writes the floor. What somebody else put in its place goes before.
pub fn write(floor: u32) -> Result<(), String> {
    let (name, vendor) = variable()?;
    let mut room = [0; 16];
    if !matches!(runtime::get_variable(&name, &vendor, &mut room), Ok((_, OURS))) {
        // Most often there is nothing to be removed.
        let _ = runtime::delete_variable(&name, &vendor);
    }
    runtime::set_variable(&name, &vendor, OURS, epoch::text(floor).as_bytes())
        .map_err(|error| error.to_string())
}

fn variable() -> Result<(CString16, VariableVendor), String> {
    let name = CString16::try_from(FLOOR_VARIABLE).map_err(|error| error.to_string())?;
    Ok((name, VariableVendor(Guid::try_parse(VENDOR).map_err(|error| error.to_string())?)))
}
