//! Verbs that look at a recipe and change nothing.

use super::Session;
use crate::error::{Error, Kind, Result};
use crate::plan::{self, AnyPlan, Strictness, resolve, resolve_any};
use serde_json::{Value, json};

/// `osbuild check`
pub fn check(session: &Session, recipe: Option<&str>) -> Result<()> {
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
    session.report.note(format!("{} is fine", recipe.unwrap_or("everything")));
    if session.common.json {
        session.report.data(json!({ "problems": 0, "warnings": warnings }).to_string());
    }
    Ok(())
}

/// `osbuild plan`
pub fn plan(session: &Session, recipe: &str) -> Result<()> {
    let plan = resolve_any(&session.project, recipe, session.today, Strictness::Build)?;
    let text = plan.print();
    let json = || {
        let mut json =
            as_json(text.parse::<toml::Table>().expect("a plan prints itself as TOML").into());
        json["origins"] = origins(&*plan);
        json
    };
    session.data(json, || text.trim_end().to_owned());
    Ok(())
}

/// A document of TOML in JSON. Dates, which JSON has not, become text.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::Table(table) => {
            table.into_iter().map(|(name, value)| (name, as_json(value))).collect()
        }
        toml::Value::Array(values) => values.into_iter().map(as_json).collect(),
        toml::Value::Datetime(date) => Value::from(date.to_string()),
        toml::Value::String(text) => Value::from(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(yes) => Value::from(yes),
    }
}

/// Where each value was written, which the printed plan says in comments:
/// `"kernel.options.EROFS_FS": "FILE:LINE"`.
fn origins(plan: &dyn AnyPlan) -> Value {
    plan.origins()
        .iter()
        .map(|(name, origin)| (name.clone(), Value::from(origin.to_string())))
        .collect()
}

/// `osbuild skew`
pub fn skew(session: &Session, recipe: &str) -> Result<()> {
    let plan = resolve(&session.project, recipe, session.today, Strictness::Build)?;
    let rows = session.skew(&plan)?;
    let json = || {
        let row = |row: &plan::skew::Row| {
            json!({
                "api-server": row.api_server.to_string(),
                "joins": row.obstacle.is_none(),
                "obstacle": row.obstacle,
                "until": row.until.map(|date| date.to_string()),
                "supported": row.supported,
            })
        };
        json!({ "kubelet": plan.kubernetes.kubelet.to_string(), "api-servers": rows.iter().map(row).collect::<Vec<_>>() })
    };
    let text = || {
        let line = |row: &plan::skew::Row| {
            let until = match row.until {
                Some(date) if row.supported => format!("until {date}"),
                Some(date) => format!("unsupported since {date}"),
                None => String::new(),
            };
            format!(
                "{:12} {:6} {until:28} {}",
                row.api_server.to_string(),
                if row.obstacle.is_none() { "joins" } else { "no" },
                row.obstacle.as_deref().unwrap_or("")
            )
            .trim_end()
            .to_owned()
        };
        let head = format!("kubelet {} against each API server", plan.kubernetes.kubelet);
        std::iter::once(head).chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n")
    };
    session.data(json, text);
    Ok(())
}
