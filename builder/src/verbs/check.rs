//! `osbuild check`

use super::Session;
use crate::error::{Error, Kind, Result, each_once, in_words};
use crate::plan::{self, Strictness, resolve_any};
use serde_json::json;

/// `osbuild check`
pub fn run(session: &Session, recipes: &[String]) -> Result<()> {
    if !recipes.is_empty() {
        session.check_set(recipes)?;
    }
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    for recipe in recipes {
        match resolve_any(&session.project, recipe, session.today, Strictness::Build) {
            Ok(plan) => warnings.extend(plan.warnings().to_vec()),
            Err(error) => problems.extend(error.problems),
        }
    }
    if recipes.is_empty() {
        (problems, warnings) = plan::check(&session.project, session.today);
    }
    let (problems, warnings) = (each_once(problems), each_once(warnings));
    warnings.iter().for_each(|warning| session.report.warning(warning));
    if !problems.is_empty() {
        return Err(Error::many(Kind::Usage, problems));
    }
    let checked = match recipes {
        [] => "the project".to_owned(),
        recipes => in_words(recipes.iter().map(String::as_str)),
    };
    session.report.note(format!("no problems in {checked}"));
    if session.common.json {
        session.report.data(json!({ "problems": 0, "warnings": warnings }).to_string());
    }
    Ok(())
}
