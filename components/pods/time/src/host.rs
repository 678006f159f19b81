//! Requests to `init`, which has the console, and keeps on DATA when the node last ran.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use osbuild_protocol::{Client, ClientError, ClockReport, LastSeen, Request};

use crate::agreement::Agreement;

/// How long to wait for `init`, which is busy at boot but never for long.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long to ask when the node last ran. Servers that lie can set the clock of a node that does
/// not know.
const ASK_FOR: Duration = Duration::from_secs(60);
/// The time between two such questions.
const INTERVAL: Duration = Duration::from_secs(1);

/// When the node last ran, and whether the machine kept the time since then.
///
/// # Errors
/// There is no such socket, `init` refuses the question, or does not answer it for a minute.
pub fn last_seen(socket: &Path) -> Result<LastSeen, ClientError> {
    let began = Instant::now();
    loop {
        match Client::connect(socket, TIMEOUT).and_then(|mut init| init.last_seen()) {
            Err(ClientError::Connection(error))
                if error.kind() != io::ErrorKind::NotFound && began.elapsed() < ASK_FOR =>
            {
                sleep(INTERVAL);
            }
            answer => return answer,
        }
    }
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
