//! `osbuild clean`: room on the disk.

use super::Session;
use crate::error::Result;
use crate::report::{Outcome, bytes};
use serde_json::json;
use std::time::Duration;

/// How long something may lie unused.
const UNUSED: Duration = Duration::from_secs(14 * 86_400);

/// `osbuild clean`
pub fn clean(session: &Session, all: bool) -> Result<()> {
    let store = session.store()?;
    let freed = store.collect(if all { Duration::ZERO } else { UNUSED })?;
    let sizes = store.sizes()?;
    let left = sizes.blobs + sizes.trees + sizes.results;
    session.report.note(format!("freed {} of {} entries; the store has {} now", bytes(freed.bytes), freed.entries, bytes(left)));
    if session.common.json {
        session.report.data(json!({ "entries": freed.entries, "bytes": freed.bytes, "left": left }).to_string());
    }
    Ok(())
}

/// `osbuild clean --damaged`
pub fn damaged(session: &Session) -> Result<()> {
    let store = session.store()?;
    let step = session.report.step("check the store");
    let damaged = store.verify(&|entry| step.doing(entry))?;
    let left = store.sizes()?;
    step.done("", Some(left.blobs + left.trees), Outcome::Ran);
    for entry in &damaged {
        session.report.note(format!("`{entry}` was damaged: what made it runs again when it is needed"));
    }
    if session.common.json {
        session.report.data(json!({ "damaged": damaged }).to_string());
    }
    Ok(())
}
