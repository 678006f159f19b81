//! A transport that records calls and sends none.

use super::{Action, Failure, Region, Request, Response, Retry, Transport};
use serde_json::Value;
use std::sync::Mutex;

/// Records every call, and responds as AWS would if nothing existed yet and every call succeeded.
#[derive(Default)]
pub struct DryRun {
    calls: Mutex<Vec<Value>>,
    retry: Retry,
}

impl DryRun {
    /// A dry run without calls yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The recorded calls, in their order.
    pub fn calls(self) -> Vec<Value> {
        self.calls.into_inner().expect("no panic while a call is recorded")
    }
}

impl Transport for DryRun {
    fn call(&self, region: &Region, request: &Request) -> Result<Response, Failure> {
        let mut calls = self.calls.lock().expect("no panic while a call is recorded");
        calls.push(request.to_json(region.name()));
        Ok(Response { body: response(request).as_bytes().to_vec() })
    }

    fn workers(&self) -> usize {
        1
    }

    fn retry(&self) -> &Retry {
        &self.retry
    }
}

/// The response of AWS. An image or a snapshot that is looked up by its identifier is ready, and
/// nothing else exists.
fn response(request: &Request) -> &'static str {
    let has = |name: &str| request.shown.iter().any(|(parameter, _)| parameter == name);
    match request.action {
        Action::StartSnapshot => r#"{"SnapshotId":"snap-new","Status":"pending"}"#,
        Action::CompleteSnapshot => r#"{"Status":"completed"}"#,
        Action::DescribeSnapshots if has("SnapshotId.1") => {
            "<R><snapshotSet><item><snapshotId>snap-new</snapshotId>\
             <status>completed</status></item></snapshotSet></R>"
        }
        Action::DescribeImages if has("ImageId.1") => {
            "<R><imagesSet><item><imageId>ami-new</imageId>\
             <imageState>available</imageState></item></imagesSet></R>"
        }
        Action::RegisterImage | Action::CopyImage => "<R><imageId>ami-new</imageId></R>",
        Action::PutSnapshotBlock => "{}",
        _ => "<R><return>true</return></R>",
    }
}
