//! `osbuild clean`: removes entries from the store.

use super::Session;
use crate::engine::store::{Collect, Store};
use crate::error::{Error, Result};
use crate::report::{Outcome, bytes};
use serde_json::json;
use std::ffi::OsString;
use std::time::Duration;

/// The age at which unused entries are removed.
const MAX_AGE: Duration = Duration::from_secs(14 * 86_400);

/// The environment variable with the limit of the store in GiB.
pub const MAX_GIB: &str = "OSBUILD_STORE_MAX_GIB";

/// The default limit: four to five times the size of one recipe's entries.
const DEFAULT_MAX_GIB: u64 = 50;

/// `osbuild clean`
pub fn run(session: &Session, all: bool, max_gib: Option<u64>, damaged: bool) -> Result<()> {
    match max_gib {
        _ if damaged => remove_damaged(session),
        _ if all => collect(session, Collect::Everything),
        Some(gib) => collect(session, Collect::DownTo(gib << 30)),
        None => collect(session, Collect::Unused(MAX_AGE)),
    }
}

fn collect(session: &Session, what: Collect) -> Result<()> {
    let store = session.store()?;
    let freed = store.collect(what)?;
    let left = store.sizes()?.kept();
    let report = session.report;
    report.note(format!(
        "freed {} in {} entries; the store has {} now",
        bytes(freed.bytes),
        freed.entries,
        bytes(left)
    ));
    if freed.in_use > 0 {
        report.note(format!("kept {} entries that a running build may use", freed.in_use));
    }
    if session.common.json {
        let json = json!({
            "entries": freed.entries,
            "bytes": freed.bytes,
            "in-use": freed.in_use,
            "left": left,
        });
        report.data(json.to_string());
    }
    Ok(())
}

/// Keeps the store below its limit. Runs after each build, but at most once a day.
pub fn daily(session: &Session, store: &Store, limit: Option<u64>) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    if let Some(freed) = store.collect_daily(limit)?.filter(|freed| freed.bytes > 0) {
        let what = format!(
            "removed the least recently used {} from the store: its limit is {}",
            bytes(freed.bytes),
            bytes(limit)
        );
        session.report.note(format!("{what} ({MAX_GIB})"));
    }
    Ok(())
}

/// The limit of the store in bytes; `None` for no limit.
///
/// # Errors
/// [`MAX_GIB`] is not a number.
pub fn limit(variable: Option<OsString>) -> Result<Option<u64>> {
    let Some(value) = variable.filter(|value| !value.is_empty()) else {
        return Ok(Some(DEFAULT_MAX_GIB << 30));
    };
    match value.to_str().and_then(|value| value.parse::<u64>().ok()).filter(|gib| *gib <= 1 << 30) {
        Some(0) => Ok(None),
        Some(gib) => Ok(Some(gib << 30)),
        None => {
            Err(Error::usage(format!("`{MAX_GIB}` is not a number of GiB: `{}`", value.display()))
                .hint(format!("export {MAX_GIB}={DEFAULT_MAX_GIB}")))
        }
    }
}

/// `osbuild clean --damaged`
fn remove_damaged(session: &Session) -> Result<()> {
    let store = session.store()?;
    let step = session.report.step("check the store");
    let damaged = store.verify(&|entry| step.doing(entry))?;
    let left = store.sizes()?;
    step.done("", Some(left.blobs + left.trees), Outcome::Ran);
    for entry in &damaged {
        session
            .report
            .note(format!("removed the damaged `{entry}`: it will be made again when needed"));
    }
    if session.common.json {
        session.report.data(json!({ "damaged": damaged }).to_string());
    }
    Ok(())
}
