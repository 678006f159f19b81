//! `osbuild skew`

use super::Session;
use crate::error::Result;
use crate::plan::skew::Row;
use crate::plan::{Strictness, resolve};
use serde_json::json;

/// `osbuild skew`
pub fn run(session: &Session, recipe: &str) -> Result<()> {
    let plan = resolve(&session.project, recipe, session.today, Strictness::Build)?;
    let rows = session.skew(&plan)?;
    let json = || {
        let row = |row: &Row| {
            json!({
                "api-server": row.api_server.to_string(),
                "joins": row.obstacle.is_none(),
                "obstacle": row.obstacle,
                "until": row.until.map(|date| date.to_string()),
                "supported": row.supported,
            })
        };
        let kubelet = plan.kubernetes.kubelet.to_string();
        json!({ "kubelet": kubelet, "api-servers": rows.iter().map(row).collect::<Vec<_>>() })
    };
    let text = || {
        let line = |row: &Row| {
            let until = match row.until {
                Some(date) if row.supported => format!("until {date}"),
                Some(date) => format!("support ended {date}"),
                None => String::new(),
            };
            format!(
                "{:12} {:6} {until:25} {}",
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
