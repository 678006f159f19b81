//! `cargo ci bench [cold] [--json]`: how long things take and how big they are. Numbers are shown and never judged: a machine that is busy
//! is no fault of the code.

mod build;
mod flash;
mod handmade;
mod node;
mod upload;

use crate::site::Site;
use osbuild::error::Result;
use osbuild::report::{bytes, duration};
use serde_json::{Value, json};
use std::time::Duration;

/// One measured number.
pub struct Row {
    name: String,
    value: Measure,
    /// What the project aims at, where it does.
    aim: Option<Measure>,
}

/// What was measured.
#[derive(Clone, Copy)]
enum Measure {
    Time(Duration),
    Size(u64),
}

impl Row {
    fn time(name: impl Into<String>, value: Duration) -> Self {
        Row { name: name.into(), value: Measure::Time(value), aim: None }
    }

    fn size(name: impl Into<String>, value: u64) -> Self {
        Row { name: name.into(), value: Measure::Size(value), aim: None }
    }

    fn below(self, aim: Duration) -> Self {
        Row { aim: Some(Measure::Time(aim)), ..self }
    }

    fn less_than(self, aim: u64) -> Self {
        Row { aim: Some(Measure::Size(aim)), ..self }
    }
}

impl Measure {
    fn text(self) -> String {
        match self {
            Measure::Time(time) => duration(time),
            Measure::Size(size) => bytes(size),
        }
    }

    fn json(self) -> Value {
        match self {
            Measure::Time(time) => json!({ "seconds": time.as_secs_f64() }),
            Measure::Size(size) => json!({ "bytes": size }),
        }
    }
}

/// Measures everything; the cold build too if `cold`, which takes as long as it says.
pub fn bench(site: &Site, cold: bool, as_json: bool) -> Result<()> {
    let mut rows = build::rows(site, cold)?;
    rows.extend(node::rows(site)?);
    rows.extend(flash::rows(site)?);
    rows.extend(upload::rows(site)?);
    if as_json {
        let row = |row: &Row| json!({ "name": row.name, "value": row.value.json(), "aim": row.aim.map(Measure::json) });
        site.report.data(Value::from_iter(rows.iter().map(row)).to_string());
        return Ok(());
    }
    for Row { name, value, aim } in rows {
        let aim = aim.map(|aim| format!("aim: below {}", aim.text())).unwrap_or_default();
        site.report.data(format!("{name:44} {:>10}  {aim}", value.text()).trim_end());
    }
    Ok(())
}
