//! `SlotStatuses.osbuild`: the slots of the disk.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_cosi::v1::SlotStatusSpec;
use osbuild_protocol::{Contents, NodeStatus, SlotStatus, Slots, SlotsStatus};

pub const TYPE: ObservedType = ObservedType {
    names: names("SlotStatuses", "SlotStatus"),
    columns: &[
        column("Running", "{.running}"),
        column("Version", "{.version}"),
        column("State", "{.state}"),
    ],
    max_count: super::FEW,
};

/// Returns the slots, as `init` reports them.
///
/// # Errors
/// The reason why the slots are unknown.
pub fn known(status: &NodeStatus) -> Result<&SlotsStatus, String> {
    match &status.slots {
        Slots::Known(slots) => Ok(slots),
        Slots::Unknown => Err("the boot program has not reported the slots".to_owned()),
        Slots::Unreadable(reason) => Err(reason.clone()),
    }
}

/// The specs.
///
/// # Errors
/// The reason why nothing is known of the slots.
pub fn rows(status: &NodeStatus) -> Result<Rows<SlotStatusSpec>, String> {
    let SlotsStatus { running, other, .. } = known(status)?;
    let mut rows = Rows::at_most(TYPE.max_count);
    rows.insert(0, running.name.clone(), spec(running, true));
    if let Some(other) = other {
        rows.insert(0, other.name.clone(), spec(other, false));
    }
    Ok(rows)
}

fn spec(slot: &SlotStatus, running: bool) -> SlotStatusSpec {
    let version = match &slot.contents {
        Contents::Release(release) => release.version.clone(),
        _ => String::new(),
    };
    SlotStatusSpec { running, contents: slot.contents.words(), version, state: slot.state.words() }
}
