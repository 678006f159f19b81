//! Changes that take themselves back, and `osctl try`, `confirm` and `revert`, which end them.

use super::{note, print_lines};
use crate::changes;
use crate::cli::{How, Seconds};
use crate::connection::Connection;
use crate::error::Result;
use osbuild_cosi::v1::{
    AppliedResource, BeginTryRequest, ConfirmTryRequest, GetTryRequest, RevertTryRequest,
};

/// Calls `change`, whose argument says whether it is a dry run, as the user wants it, and prints
/// what has changed.
pub async fn change(
    connection: &Connection,
    How { dry_run, r#try }: How,
    change: impl AsyncFn(bool) -> Result<Vec<AppliedResource>>,
) -> Result<()> {
    if dry_run {
        let changes = change(true).await?;
        return print_lines(&changes.iter().flat_map(changes::difference).collect::<Vec<_>>());
    }
    let changes = match r#try {
        None => change(false).await?,
        Some(time) => tried(connection, time, change).await?,
    };
    print_lines(&changes.iter().map(changes::line).collect::<Vec<_>>())
}

async fn tried(
    connection: &Connection,
    Seconds(timeout_seconds): Seconds,
    change: impl AsyncFn(bool) -> Result<Vec<AppliedResource>>,
) -> Result<Vec<AppliedResource>> {
    // A try that changes nothing would have to be ended: a request with a mistake begins none.
    change(true).await?;
    connection.configuration().begin_try(BeginTryRequest { timeout_seconds }).await?;
    match change(false).await {
        Ok(changes) => {
            note(&format!("taken back in {timeout_seconds} s unless confirmed: osctl confirm"));
            Ok(changes)
        }
        Err(error) => {
            // The error says what is wrong. If the node is gone, it ends the try itself.
            let _ = connection.configuration().revert_try(RevertTryRequest {}).await;
            Err(error)
        }
    }
}

/// Keeps what the try has changed. The connection is new, which shows that the changes let clients
/// connect.
pub async fn confirm(connection: &Connection) -> Result<()> {
    connection.configuration().confirm_try(ConfirmTryRequest {}).await?;
    note("the changes are kept");
    Ok(())
}

/// Takes back what the try has changed.
pub async fn revert(connection: &Connection) -> Result<()> {
    connection.configuration().revert_try(RevertTryRequest {}).await?;
    note("the changes are taken back");
    Ok(())
}

/// Prints whether a try is running.
pub async fn show(connection: &Connection) -> Result<()> {
    let state = connection.configuration().get_try(GetTryRequest {}).await?.into_inner();
    let line = match state.running {
        true => format!("running: taken back in {} s unless confirmed", state.remaining_seconds),
        false => "none".to_owned(),
    };
    print_lines(&[line])
}
