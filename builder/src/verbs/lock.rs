//! `osbuild lock`: pins what a recipe asks for.

use super::Session;
use crate::error::{Kind, Result};
use crate::plan::{Held, Moved, Strictness, moved, resolve};
use serde_json::json;

/// A day in seconds: the epoch of a lock is the start of the day on which something in it moved.
const DAY: u64 = 86_400;

/// `osbuild lock`
pub fn lock(session: &Session, recipe: &str) -> Result<()> {
    let plan = resolve(&session.project, recipe, session.today, Strictness::Lock)?;
    let before = match session.checkout.find_lock(recipe) {
        Err(error) if error.kind == Kind::Lock => {
            session.report.warning(format!("{}: everything is pinned anew", error.problems[0].message));
            None
        }
        other => other?,
    };
    let store = session.store()?;
    let after = session.fetcher(&store, None).pin(&plan, &Held::by(before.clone()), epoch(session))?;
    let path = session.checkout.write_lock(&after)?;
    if let Some(before) = &before {
        say_moved(session, &moved(before, &after));
    }
    session.data(|| json!({ "lock": path, "epoch": after.epoch }), || path.display().to_string());
    Ok(())
}

/// The time of a lock that is made now, in seconds since 1970.
pub(super) fn epoch(session: &Session) -> u64 {
    session.now - session.now % DAY
}

/// Says what has another version now, a line each.
pub(super) fn say_moved(session: &Session, moved: &[Moved]) {
    for Moved { name, from, to } in moved {
        let [from, to] = [from, to].map(|version| version.as_deref().unwrap_or("nothing"));
        session.report.note(format!("{name}: {from} → {to}"));
    }
}
