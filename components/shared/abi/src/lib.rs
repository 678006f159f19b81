//! The facts that the builder and the node share, each in one place and without dependencies: one
//! side writes, the other reads.

#![no_std]

pub mod cmdline;
pub mod console;
pub mod declared;
pub mod disk;
pub mod install;
pub mod kernel_modules;
pub mod osd;
pub mod packages;
pub mod paths;
pub mod payload;
pub mod pods;
pub mod program_names;
pub mod slot;
pub mod update;
pub mod volumes;
pub mod writable;
