//! `init health`: asks the two daemons whether they are well, and says of each that does not answer
//! why.

use osbuild_failure::{Failure, Outcome};
use tokio::time::timeout;

use super::api::Connection;
use super::gate;
use crate::health::ANSWER_TIMEOUT;
use crate::{containerd, kubelet};

/// Asks both. A line `NAME: WHY` for each that gives no answer.
pub async fn ask() -> Outcome {
    if let Err(failure) = gate::healthy(ANSWER_TIMEOUT) {
        println!("{}: {failure}", kubelet::NAME);
    }
    let late = |_| Failure::new(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()));
    if let Err(failure) = timeout(ANSWER_TIMEOUT, version()).await.map_err(late).flatten() {
        println!("{}: {failure}", containerd::NAME);
    }
    Ok(())
}

/// What every client of the CRI asks first.
async fn version() -> Outcome {
    let mut containerd = Connection::open().await?;
    containerd.version().await.map_err(|status| Failure::new(status.message()))
}
