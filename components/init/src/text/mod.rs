//! Readers of text that other programs or people have written. All of it is pure.

pub mod api_response;
pub mod cni;
pub mod console_command;
pub mod daemon_line;
pub mod lines;
pub mod meminfo;
pub mod mountinfo;
pub mod name;
pub mod process;
pub mod routes;
pub mod swaps;
pub mod variable;
