//! What `--dry-run` asks: nobody. It keeps every call, and answers as AWS would if all went well
//! and nothing was there before.

use super::{Action, Answer, Cloud, Failure, Patience, Region, Request};
use serde_json::Value;
use std::sync::Mutex;

/// Calls that were not made.
pub struct Rehearsal {
    calls: Mutex<Vec<Value>>,
    patience: Patience,
}

impl Rehearsal {
    /// One without calls yet.
    pub fn new() -> Self {
        Rehearsal { calls: Mutex::default(), patience: Patience::default() }
    }

    /// The calls, in their order.
    pub fn calls(self) -> Vec<Value> {
        self.calls.into_inner().expect("nobody panics while a call is kept")
    }
}

impl Default for Rehearsal {
    fn default() -> Self {
        Self::new()
    }
}

impl Cloud for Rehearsal {
    fn call(&self, region: &Region, request: &Request) -> Result<Answer, Failure> {
        self.calls
            .lock()
            .expect("nobody panics while a call is kept")
            .push(request.to_json(region.name()));
        Ok(Answer { body: answer(request).into_bytes() })
    }

    fn workers(&self) -> usize {
        1
    }

    fn patience(&self) -> &Patience {
        &self.patience
    }
}

/// What AWS would say. An image and a snapshot that are looked for by their identifier are ready,
/// all others are not there.
fn answer(request: &Request) -> String {
    let asks_for = |name: &str| request.shown.iter().any(|(parameter, _)| parameter == name);
    let body = match request.action {
        Action::StartSnapshot => r#"{"SnapshotId":"snap-new","Status":"pending"}"#,
        Action::CompleteSnapshot => r#"{"Status":"completed"}"#,
        Action::DescribeSnapshots if asks_for("SnapshotId.1") => {
            "<R><snapshotSet><item><snapshotId>snap-new</snapshotId><status>completed</status></item></snapshotSet></R>"
        }
        Action::DescribeImages if asks_for("ImageId.1") => {
            "<R><imagesSet><item><imageId>ami-new</imageId><imageState>available</imageState></item></imagesSet></R>"
        }
        Action::RegisterImage | Action::CopyImage => "<R><imageId>ami-new</imageId></R>",
        Action::PutSnapshotBlock => "{}",
        _ => "<R><return>true</return></R>",
    };
    body.to_owned()
}
