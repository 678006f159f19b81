//! `installer.toml`, the settings of an installer. The pod `installer` reads it again on the
//! machine (`components/pods/installer/src/settings.rs`).

use super::values::{Gib, InstallerBus, Line, Map, Seconds};

table! {
    /// The settings of an installer.
    InstallerFile {
        /// Whether to begin without confirmation.
        unattended: Optional bool,
        /// Time to pull the plug.
        countdown_s: Optional Seconds<0, { u32::MAX as i64 }>,
        /// Whether to enroll the stick's keys in the firmware.
        enroll_keys: Optional bool,
        /// Whether a disk with a node can be erased.
        replace_node: Optional bool,
        /// Which disk; without it nothing is installed.
        disk: Optional DiskTable,
        /// Files of the stick to copy to DATA.
        files: Optional Map<Line, Line>,
    }
}

table! {
    /// `[disk]`
    DiskTable {
        /// The bus that it is connected to.
        bus: Optional InstallerBus,
        /// Its model.
        model: Optional Line,
        /// Its serial number.
        serial: Optional Line,
        /// Its minimum size.
        min_size_gib: Optional Gib<0, { i64::MAX }>,
        /// Its maximum size.
        max_size_gib: Optional Gib<0, { i64::MAX }>,
    }
}
