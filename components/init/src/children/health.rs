//! `init health`: asks the two daemons whether they are healthy, and reports why one does not
//! answer.

use osbuild_failure::{Failure, Outcome};
use tokio::time::timeout;

use super::api::Connection;
use super::gate;
use crate::daemons::health::ANSWER_TIMEOUT;
use crate::processes::program::Program;

/// Asks both. It writes a line `NAME: WHY` for each that does not answer.
pub async fn ask() -> Outcome {
    if let Err(failure) = gate::healthy(ANSWER_TIMEOUT) {
        println!("{}: {failure}", Program::Kubelet.name());
    }
    let late = |_| Failure::new(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()));
    if let Err(failure) = timeout(ANSWER_TIMEOUT, version()).await.map_err(late).flatten() {
        println!("{}: {failure}", Program::Containerd.name());
    }
    Ok(())
}

/// The first request of every client of the CRI.
async fn version() -> Outcome {
    let mut containerd = Connection::open().await?;
    containerd.version().await.map_err(|status| Failure::new(status.message()))
}
