//! `osctl confirm`, `revert` and `try`: the try that is running.

use super::{note, print_lines};
use crate::connection::Connection;
use crate::error::Result;
use osbuild_cosi::v1::{ConfirmTryRequest, GetTryRequest, RevertTryRequest};

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
