//! The steps of a probe, which the client learns as they end.

use super::{Files, Reachable, STEP_TIMEOUT};
use osbuild_cosi::v1::reach_response::Part;
use osbuild_cosi::v1::{ReachResponse, ReachStep};
use std::fmt::Display;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout};
use tonic::Status;

/// Why a probe does not go on.
#[derive(Debug)]
pub enum Stop {
    /// The caller may not, or has asked for what makes no sense.
    Refused(Status),
    /// The target is not reached: a summary for people.
    Unreached(String),
}

impl Stop {
    /// The request makes no sense.
    pub fn malformed(reason: impl Into<String>) -> Stop {
        Stop::Refused(Status::invalid_argument(reason))
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Stop {
        Stop::Refused(status)
    }
}

/// Why a step has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The error, such as `connection refused`.
    pub error: String,
    /// The usual cause of the error; may be empty.
    pub meaning: String,
}

impl Failed {
    /// An error, and its usual cause.
    pub fn new(error: impl Into<String>, meaning: impl Into<String>) -> Failed {
        Failed { error: error.into(), meaning: meaning.into() }
    }
}

/// Tells the client the steps of a probe, and has what the probe needs.
pub struct Steps<'a> {
    /// To the client.
    pub to: &'a Sender<Result<ReachResponse, Status>>,
    /// The files of the node.
    pub files: &'a Files,
    /// The addresses that the caller may reach.
    pub reachable: Reachable,
}

impl Steps<'_> {
    /// Does a step within [`STEP_TIMEOUT`], and reports its outcome, which `words` gives.
    pub async fn run<T>(
        &self,
        name: &str,
        peer: impl Display,
        step: impl Future<Output = Result<T, Failed>>,
        words: impl FnOnce(&T) -> String,
    ) -> Result<T, Failed> {
        let (peer, began) = (peer.to_string(), Instant::now());
        let outcome = match timeout(STEP_TIMEOUT, step).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failed::new(
                format!("no answer within {} s", STEP_TIMEOUT.as_secs()),
                "a firewall drops the packets, or no machine has the address",
            )),
        };
        self.tell(name, peer, began, outcome.as_ref().map(words)).await;
        outcome
    }

    /// Tells a step that began then.
    pub async fn tell(
        &self,
        name: &str,
        peer: String,
        began: Instant,
        outcome: Result<String, &Failed>,
    ) {
        let microseconds = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut step =
            ReachStep { name: name.to_owned(), peer, microseconds, ..ReachStep::default() };
        match outcome {
            Ok(outcome) => step.outcome = outcome,
            Err(Failed { error, meaning }) => {
                (step.error, step.meaning) = (error.clone(), meaning.clone());
            }
        }
        let message = ReachResponse { part: Some(Part::Step(step)) };
        // A client that has gone ends the call.
        let _ = self.to.send(Ok(message)).await;
    }
}
