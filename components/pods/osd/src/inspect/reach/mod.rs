//! Whether the node reaches a target: name servers, TCP, HTTP, and ICMP echo requests.
//!
//! Everything has a limit of time and number, and nothing that a target sends is returned beyond a
//! few words, so that a client cannot use the node to attack or to read what only the node may.

mod access;
mod dns;
mod echo;
mod http;
mod lookup;
mod path;
mod ping;
mod steps;
mod tcp;
mod tls;
mod words;

pub use access::{MAY_ALL, Reachable};

use osbuild_cosi::v1::reach_request::Probe;
use osbuild_cosi::v1::reach_response::Part;
use osbuild_cosi::v1::{ReachRequest, ReachResponse, ReachResult};
use std::path::PathBuf;
use std::time::Duration;
use steps::{Steps, Stop};
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;
use tonic::Status;

/// Calls at a time.
pub const MAX_CALLS: usize = 4;

/// How long a step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The files with which the node resolves names and verifies certificates.
#[derive(Debug, Clone)]
pub struct Files {
    /// The name servers (resolv.conf(5)).
    pub resolver: PathBuf,
    /// Names and their addresses (hosts(5)).
    pub hosts: PathBuf,
    /// The certificates of the authorities that the node trusts, in PEM. Some may be missing.
    pub authorities: Vec<PathBuf>,
}

/// Tries to reach the target, and reports the steps and the result until nobody takes them.
pub async fn run(
    request: ReachRequest,
    reachable: Reachable,
    files: &Files,
    to: &Sender<Result<ReachResponse, Status>>,
) {
    let steps = Steps { to, files, reachable };
    let outcome = tokio::select! {
        outcome = timeout(CALL_TIMEOUT, probe(request, &steps)) => outcome,
        () = to.closed() => return,
    };
    let result = match outcome {
        Ok(Ok(summary)) => Ok(ReachResult { reached: true, summary }),
        Ok(Err(Stop::Unreached(summary))) => Ok(ReachResult { reached: false, summary }),
        Ok(Err(Stop::Refused(status))) => Err(status),
        Err(_) => {
            let summary = format!("not done after {} s", CALL_TIMEOUT.as_secs());
            Ok(ReachResult { reached: false, summary })
        }
    };
    let message = result.map(|result| ReachResponse { part: Some(Part::Result(result)) });
    let _ = to.send(message).await;
}

async fn probe(ReachRequest { probe }: ReachRequest, steps: &Steps<'_>) -> Result<String, Stop> {
    match probe {
        Some(Probe::Dns(request)) => dns::probe(request, steps).await,
        Some(Probe::Tcp(request)) => tcp::probe(request, steps).await,
        Some(Probe::Http(request)) => http::probe(request, steps).await,
        Some(Probe::Ping(request)) => ping::probe(request, steps).await,
        Some(Probe::Mtu(request)) => path::mtu(request, steps).await,
        Some(Probe::Trace(request)) => path::trace(request, steps).await,
        None => Err(Stop::malformed("what to try is missing")),
    }
}
