//! The container `inspect`: finds out what a person asks of a node that has a problem.
//!
//! It has rights that `osd` does not have, and serves `osd` alone, over a socket of their pod. It
//! changes nothing on the node.

mod below;
pub mod capture;
pub mod files;
mod kernel_log;
mod log_file;
mod log_line;
mod logs;
mod processes;
pub mod reach;
mod server;
pub(crate) mod sys;
mod usage;

pub use server::{MAX_READERS, Options, serve};
