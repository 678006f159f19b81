//! Installs CNI plugins on the node, and starts the dynamically linked program that two of them
//! execute.
//!
//! The host has no dynamic linker. A dynamically linked program is therefore installed as a folder
//! `.NAME` with its loader and its libraries, and this program is installed as `NAME`: it finds the
//! folder next to itself, and executes the loader with the program.

pub mod install;
pub mod launch;
