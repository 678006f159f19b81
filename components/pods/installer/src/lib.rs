//! Installs a machine from the stick, or the network, that it was booted from. See the README
//! beside it.

pub mod boot_entry;
pub mod carried;
pub mod console;
pub mod data;
pub mod enroll;
pub mod firmware;
pub mod install;
pub mod rule;
pub mod settings;
pub mod stick;
