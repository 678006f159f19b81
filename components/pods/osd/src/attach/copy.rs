//! Sends the output of a command.

use super::descriptor::Descriptor;
use super::process::Ending;
use super::{To, response};
use osbuild_cosi::v1::debug_response::Part;
use std::time::Duration;
use tokio::time::timeout;

/// The bytes of a message.
const PART: usize = 32 << 10;

/// How long an output stays silent after the end of its command before it is taken for complete: a
/// program in the background may have it open for ever.
const SILENCE: Duration = Duration::from_millis(200);

/// Which output it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// stdout, or a terminal.
    Output,
    /// stderr.
    ErrorOutput,
}

/// Sends the output until its end, or until it is silent after the command has ended. A receiver
/// that takes nothing makes the command wait.
pub async fn copy(from: Option<Descriptor>, direction: Direction, mut ending: Ending, to: &To) {
    let Some(from) = from else { return };
    let mut buffer = vec![0; PART];
    loop {
        let read = match ending.has_ended() {
            true => timeout(SILENCE, from.read(&mut buffer)).await.ok(),
            false => tokio::select! {
                read = from.read(&mut buffer) => Some(read),
                _ = ending.code() => continue,
            },
        };
        let Some(Ok(length @ 1..)) = read else { return };
        let bytes = buffer[..length].to_vec();
        let part = match direction {
            Direction::Output => Part::Output(bytes),
            Direction::ErrorOutput => Part::ErrorOutput(bytes),
        };
        if to.send(response(part)).await.is_err() {
            return;
        }
    }
}
