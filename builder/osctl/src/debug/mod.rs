//! The terminal and the input of the user of a debug container.

pub mod escape;
pub mod input;
pub mod terminal;
