//! Installs a machine that was booted from a stick or over the network. See the README.

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
