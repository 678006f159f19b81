//! `osbuild plan`

use super::Session;
use crate::error::Result;
use crate::plan::{AnyPlan, Strictness, resolve_any};
use serde_json::Value;

/// `osbuild plan`
pub fn run(session: &Session, recipe: &str) -> Result<()> {
    session.check_set(&[recipe])?;
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

/// A TOML document as JSON. Dates, a type that JSON lacks, become strings.
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

/// The file and line that set each value, which are comments in the printed plan:
/// `"kernel.options.EROFS_FS": "FILE:LINE"`.
fn origins(plan: &dyn AnyPlan) -> Value {
    plan.origins()
        .iter()
        .map(|(name, origin)| (name.clone(), Value::from(origin.to_string())))
        .collect()
}
