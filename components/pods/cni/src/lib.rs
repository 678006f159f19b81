//! Installs CNI plugins on the node, and starts the dynamically linked program that two of them
//! execute.
//!
//! The host has no dynamic linker. So what needs one is installed as a folder `.NAME` with the
//! program, its loader and its libraries, and this program is installed a second time as `NAME`: it
//! finds the folder beside itself and has the loader start the program.

pub mod install;
pub mod launch;
