//! Which log belongs to whom.

use osbuild_abi::paths::LOGS;
use osbuild_failure::Outcome;

use crate::data;
use crate::log::{BOUND, Log};
use crate::node::Node;
use crate::writer::{LogLines, Writer};

/// Starts the log of `init` itself.
pub fn start(node: &mut Node) -> Outcome {
    let log = of(&node.writer, "init")?;
    node.console.keep_log(log);
    Ok(())
}

/// Starts the log of a daemon.
pub fn of(writer: &Writer, name: &'static str) -> Outcome<LogLines> {
    writer.log(move || Ok(Log::start(data::behind(&data::folder()?, LOGS)?, name, BOUND)))
}
