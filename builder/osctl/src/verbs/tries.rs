//! Changes that take themselves back, and `osctl try`, `confirm` and `revert`, which end them.

use super::note;
use super::output::Output;
use crate::changes;
use crate::cli::{How, Seconds};
use crate::connection::Connection;
use crate::error::{Result, printable};
use osbuild_cosi::v1::{
    AppliedResource, BeginTryRequest, ConfirmTryRequest, GetTryRequest, GetTryResponse,
    RevertTryRequest,
};

/// What keeps the changes of a try.
const CONFIRM: &str = "osctl confirm";

/// Calls `change`, whose argument says whether it is a dry run, as the user wants it. Returns lines
/// that say what has changed.
pub async fn change(
    connection: &Connection,
    How { dry_run, r#try }: How,
    change: impl AsyncFn(bool) -> Result<Vec<AppliedResource>>,
) -> Result<Vec<String>> {
    if dry_run {
        let changes = change(true).await?;
        return Ok(changes.iter().flat_map(changes::difference).collect());
    }
    let changes = match r#try {
        None => {
            let changes = change(false).await?;
            note_try(connection).await;
            changes
        }
        Some(time) => tried(connection, time, change).await?,
    };
    Ok(changes.iter().map(changes::line).collect())
}

async fn tried(
    connection: &Connection,
    Seconds(timeout_seconds): Seconds,
    change: impl AsyncFn(bool) -> Result<Vec<AppliedResource>>,
) -> Result<Vec<AppliedResource>> {
    // A try that changes nothing would have to be ended: a request with a mistake begins none.
    change(true).await?;
    let request = BeginTryRequest { timeout_seconds };
    let begun = connection.configuration().begin_try(request).await?.into_inner();
    match change(false).await {
        Ok(changes) => {
            let what = if begun.extended { "with your earlier try, " } else { "" };
            note(&format!("{what}taken back in {timeout_seconds} s unless confirmed: {CONFIRM}"));
            Ok(changes)
        }
        Err(error) if begun.extended => {
            note(&format!("your earlier try goes on for {timeout_seconds} s: {CONFIRM}"));
            Err(error)
        }
        Err(error) => {
            // The error says what is wrong. If the node is gone, it ends the try itself.
            let _ = connection.configuration().revert_try(RevertTryRequest {}).await;
            Err(error)
        }
    }
}

/// Says that a change that was just made is part of a running try.
pub async fn note_try(connection: &Connection) {
    // The change is made, whether or not the node says more.
    let Ok(answer) = connection.configuration().get_try(GetTryRequest {}).await else { return };
    let GetTryResponse { running, remaining_seconds, caller } = answer.into_inner();
    if running {
        note(&format!(
            "this is part of the try of {caller}, which is taken back in {remaining_seconds} s \
             unless confirmed: {CONFIRM}"
        ));
    }
}

/// Keeps what the try has changed. The connection is new, which shows that the changes let clients
/// connect.
pub async fn confirm(connection: &Connection) -> Result<Vec<String>> {
    connection.configuration().confirm_try(ConfirmTryRequest {}).await?;
    note("the changes are kept");
    Ok(Vec::new())
}

/// Takes back what the try has changed.
pub async fn revert(connection: &Connection) -> Result<Vec<String>> {
    connection.configuration().revert_try(RevertTryRequest {}).await?;
    note("the changes are taken back");
    Ok(Vec::new())
}

/// Whether a try is running.
pub async fn show(connection: &Connection) -> Result<Output> {
    let state = connection.configuration().get_try(GetTryRequest {}).await?.into_inner();
    Ok(Output::Lines(vec![line(&state)]))
}

fn line(GetTryResponse { running, remaining_seconds, caller }: &GetTryResponse) -> String {
    match running {
        true => format!(
            "running: begun by {}, taken back in {remaining_seconds} s unless confirmed",
            printable(caller)
        ),
        false => "none".to_owned(),
    }
}
