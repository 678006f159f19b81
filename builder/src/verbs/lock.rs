//! `osbuild lock`: pins the inputs of a recipe.

use super::Session;
use crate::cli;
use crate::error::{Kind, Problem, Result};
use crate::host;
use crate::plan::{Lock, PreviousLock, Strictness, moved, resolve_any};
use crate::produce::fetch::{Fetcher, SourceOrigin};
use serde_json::json;

/// A day in seconds: the epoch of a lock is the start of the day of its last change.
const DAY: u64 = 86_400;

/// `osbuild lock`
pub fn run(session: &Session, recipes: &cli::Recipes) -> Result<()> {
    session.selected(recipes)?.iter().try_for_each(|recipe| one(session, recipe))
}

fn one(session: &Session, recipe: &str) -> Result<()> {
    let plan = resolve_any(&session.project, recipe, session.today, Strictness::Lock)?;
    let before = match session.checkout.find_lock(recipe) {
        Err(error) if error.kind == Kind::Lock => {
            let Problem { message, place, .. } = &error.problems[0];
            let place = place.as_ref().map(|place| format!("{}:{}: ", place.file, place.line));
            let place = place.unwrap_or_default();
            session.report.warning(format!("{place}{message}: pinning everything again"));
            None
        }
        other => other?,
    };
    let store = session.store()?;
    let mut held = PreviousLock::of(before.clone());
    others(session, recipe).for_each(|lock| held.add(lock));
    let online = session.fetcher(&store);
    let offline = Fetcher { origin: SourceOrigin::Store, ..online.clone() };
    let after = match offline.pin(&*plan, &held, epoch(session)) {
        // The clients are needed only if a pin is missing.
        Err(_) if !session.common.offline => {
            session.need(&host::for_sources())?;
            online.pin(&*plan, &held, epoch(session))?
        }
        kept => kept?,
    };
    let path = session.checkout.write_lock(&after)?;
    if let Some(before) = &before {
        moved(before, &after).iter().for_each(|moved| session.report.note(moved.to_string()));
    }
    session.data(|| json!({ "lock": path, "epoch": after.epoch }), || path.display().to_string());
    Ok(())
}

/// The locks of the other recipes: using the same pins lets recipes share compiled results.
fn others(session: &Session, recipe: &str) -> impl Iterator<Item = Lock> {
    let names = session.with_lock().filter(move |name| *name != recipe);
    // A lock that cannot be read is an error only for its own recipe.
    names.filter_map(|name| session.checkout.lock(name).ok())
}

/// The epoch of a new lock in seconds since 1970.
pub(super) fn epoch(session: &Session) -> u64 {
    session.now - session.now % DAY
}
