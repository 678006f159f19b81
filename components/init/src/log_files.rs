//! Which log belongs to whom.

use osbuild_abi::paths::LOGS;
use osbuild_failure::Outcome;

use crate::data;
use crate::log::{BOUND, Log};
use crate::node::Node;

/// Starts the log of `init` itself.
pub fn start(node: &mut Node) -> Outcome {
    node.console.keep_log(of("init")?);
    Ok(())
}

/// Starts the log of a daemon.
pub fn of(name: &str) -> Outcome<Log> {
    Ok(Log::start(data::behind(&data::folder()?, LOGS)?, name, BOUND))
}
