//! What `init` knows of the clock, and the reports that it gets: it has the console, and DATA,
//! where it keeps when the node last ran.

use std::path::Path;
use std::time::Duration;

use osbuild_protocol::{Client, ClientError, ClockReport, LastSeen, Request};

use crate::agreement::Agreement;

/// How long `init` may take to reply: it does much else at boot, but nothing that takes long.
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
