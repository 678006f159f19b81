//! Requests to `init`, which has the console, and keeps on DATA when the node last ran.

use std::path::Path;
use std::time::Duration;

use osbuild_protocol::{Client, ClientError, ClockReport, LastSeen, Request};

use crate::agreement::Agreement;

/// How long to wait for `init`, which is busy at boot but never for long.
const TIMEOUT: Duration = Duration::from_secs(2);

/// When the node last ran, and whether the machine kept the time since then.
pub fn last_seen(socket: &Path) -> Result<LastSeen, ClientError> {
    Client::connect(socket, TIMEOUT)?.last_seen()
}

/// Sends a report about the clock.
pub fn report(socket: &Path, request: &Request) -> Result<(), ClientError> {
    Client::connect(socket, TIMEOUT)?.send(request)
}

impl From<&Agreement> for ClockReport {
    fn from(agreement: &Agreement) -> Self {
        let Agreement { offset, agreeing, answered } = *agreement;
        let count = |servers: usize| u8::try_from(servers).unwrap_or(u8::MAX);
        ClockReport { offset, agreeing: count(agreeing), answered: count(answered) }
    }
}
