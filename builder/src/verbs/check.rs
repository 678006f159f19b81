//! `osbuild check`

use super::Session;
use crate::error::{Error, Kind, Result};
use crate::plan::{self, Strictness, resolve_any};
use serde_json::json;

/// `osbuild check`
pub fn run(session: &Session, recipe: Option<&str>) -> Result<()> {
    let (problems, warnings) = match recipe {
        Some(recipe) => {
            let plan = resolve_any(&session.project, recipe, session.today, Strictness::Build)?;
            (Vec::new(), plan.warnings().to_vec())
        }
        None => (plan::check(&session.project, session.today), Vec::new()),
    };
    warnings.iter().for_each(|warning| session.report.warning(warning));
    if !problems.is_empty() {
        return Err(Error::many(Kind::Usage, problems));
    }
    session.report.note(format!("no problems in {}", recipe.unwrap_or("the project")));
    if session.common.json {
        session.report.data(json!({ "problems": 0, "warnings": warnings }).to_string());
    }
    Ok(())
}
