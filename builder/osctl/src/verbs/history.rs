//! `osctl history`: the generations of the settings; and `osctl revert NUMBER`, which restores one.

use super::output::Output;
use super::{print_lines, tries};
use crate::changes;
use crate::cli::{How, ListForm};
use crate::connection::Connection;
use crate::error::{Result, printable};
use jiff::Timestamp;
use osbuild_cosi::v1::{Generation, ListGenerationsRequest, RestoreGenerationRequest};
use serde_json::{Value, json};
use tonic::Code;

/// The generations, the newest first.
pub async fn show(connection: &Connection, form: ListForm) -> Result<Output> {
    let generations = generations(connection).await?;
    Ok(match form {
        ListForm::Table => {
            let titles = ["GENERATION", "TIME", "CALLER", "CHANGES"].map(str::to_owned).to_vec();
            let rows = generations.iter().map(row);
            Output::Table(std::iter::once(titles).chain(rows).collect())
        }
        ListForm::Json => Output::Json(generations.iter().map(json).collect()),
    })
}

/// The generations that the node has, the newest first.
pub async fn generations(connection: &Connection) -> Result<Vec<Generation>> {
    let answer = connection.configuration().list_generations(ListGenerationsRequest {}).await?;
    Ok(answer.into_inner().generations)
}

/// The same, or none if the caller's role may not list them.
pub async fn generations_if_allowed(connection: &Connection) -> Result<Vec<Generation>> {
    match connection.configuration().list_generations(ListGenerationsRequest {}).await {
        Ok(answer) => Ok(answer.into_inner().generations),
        Err(status) if status.code() == Code::PermissionDenied => Ok(Vec::new()),
        Err(status) => Err(status.into()),
    }
}

/// Gives all settings the content that they had in a generation.
pub async fn restore(connection: &Connection, number: u64, how: How) -> Result<()> {
    let restore = async |dry_run| {
        let request = RestoreGenerationRequest { number, dry_run };
        Ok(connection.configuration().restore_generation(request).await?.into_inner().resources)
    };
    print_lines(&tries::change(connection, how, restore).await?)
}

/// When the generation was made (RFC 3339).
pub fn time(generation: &Generation) -> String {
    let time = Timestamp::from_second(generation.time_seconds);
    time.map_or_else(|_| String::new(), |time| time.to_string())
}

fn row(generation: &Generation) -> Vec<String> {
    let changes: Vec<_> = generation.changes.iter().map(changes::line).collect();
    let number = generation.number.to_string();
    vec![number, time(generation), printable(&generation.caller), changes.join(", ")]
}

fn json(generation: &Generation) -> Value {
    let changes = generation.changes.iter().map(|change| {
        json!({
            "change": changes::line(change),
            "before": change.before,
            "after": change.after,
        })
    });
    json!({
        "generation": generation.number,
        "time": time(generation),
        "caller": generation.caller,
        "changes": changes.collect::<Vec<_>>(),
    })
}
