//! The log files of `init` and the daemons.

use osbuild_abi::paths::LOGS;
use osbuild_failure::Outcome;

use super::log::{BOUND, Log};
use super::writer::{LogLines, Writer};
use crate::data;

/// Starts the log `name`, which the writer makes and writes.
pub fn start(writer: &Writer, name: &'static str) -> Outcome<LogLines> {
    writer.log(move || {
        Ok(Log::start(data::folder::behind(&data::folder::open()?, LOGS)?, name, BOUND))
    })
}
