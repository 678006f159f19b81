//! Changes that take themselves back, and `osctl try`, `confirm` and `revert`, which end them.

use super::guard::Guard;
use super::note;
use super::output::Output;
use crate::changes;
use crate::cli::{How, Seconds};
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Error, Result, printable};
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::{
    AppliedResource, BeginTryRequest, ConfirmTryRequest, GetTryRequest, GetTryResponse,
    RevertTryRequest,
};
use std::error::Error as _;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

/// The command that keeps the changes of a try.
fn confirm_command(connection: &Connection) -> String {
    format!("osctl confirm{}", connection.arguments())
}

/// How long the network of a node may take to have the changes that are confirmed.
const NETWORK_TIME: Duration = Duration::from_secs(10);
/// The pause before they are confirmed again.
const PAUSE: Duration = Duration::from_secs(1);

/// Calls `change`, whose argument says whether it is a dry run, as the user wants it. Returns lines
/// that say what has changed.
pub async fn change(
    connection: &Connection,
    How { dry_run, r#try, unguarded }: How,
    change: impl AsyncFn(bool) -> Result<Vec<AppliedResource>>,
) -> Result<Vec<String>> {
    if dry_run {
        let changes = change(true).await?;
        return Ok(changes.iter().flat_map(changes::difference).collect());
    }
    let changes = match r#try {
        None => {
            let may_disconnect =
                async || changes_reachability(connection, &change(true).await?).await;
            let guard = Guard::begin(connection, unguarded, may_disconnect).await?;
            guard.end(change(false).await).await?
        }
        Some(time) => tried(connection, time, change).await?,
    };
    Ok(changes.iter().map(changes::line).collect())
}

/// Whether one of the changes can keep this program from reaching the node.
async fn changes_reachability(
    connection: &Connection,
    changes: &[AppliedResource],
) -> Result<bool> {
    let definitions = definitions::all(connection).await?;
    let may_disconnect = |change: &&AppliedResource| {
        let is_of = |one: &&Definition| one.type_name == change.r#type;
        definitions.iter().find(is_of).is_some_and(|one| one.may_disconnect)
    };
    let mut real = changes.iter().filter(|change| change.outcome() != Outcome::Unchanged);
    Ok(real.any(|change| may_disconnect(&change)))
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
    connection.be_part_of(begun.number);
    let confirm = confirm_command(connection);
    match change(false).await {
        Ok(changes) => {
            let what = if begun.extended { "with your earlier try, " } else { "" };
            note(&format!("{what}taken back in {timeout_seconds} s unless confirmed: {confirm}"));
            Ok(changes)
        }
        Err(error) if begun.extended => {
            note(&format!("your earlier try goes on for {timeout_seconds} s: {confirm}"));
            Err(error)
        }
        Err(error) => {
            let reverted = connection.configuration().revert_try(RevertTryRequest {}).await;
            Err(with_end(error, reverted.err().as_ref(), timeout_seconds))
        }
    }
}

/// The error of a change that failed, whose try was then taken back or not. A change that cuts the
/// node off may be made: its answer is lost with the connection, and the node ends the try itself.
fn with_end(error: Error, reverted: Option<&Status>, timeout_seconds: u32) -> Error {
    match reverted {
        Some(status) if status.source().is_some() => {
            error.cause(format!("what was changed is taken back within {timeout_seconds} s"))
        }
        // The error says what is wrong.
        _ => error,
    }
}

/// Says that a change that was just made is part of a running try.
pub async fn note_try(connection: &Connection) {
    // The change is made, whether or not the node says more.
    let Ok(state) = state(connection).await else { return };
    let GetTryResponse { running, remaining_seconds, caller, .. } = state;
    if running {
        note(&format!(
            "this is part of the try of {}, which is taken back in {remaining_seconds} s unless \
             confirmed: {}",
            printable(&caller),
            confirm_command(connection)
        ));
    }
}

/// Whether a try is running, its caller, and the time that is left.
pub async fn state(connection: &Connection) -> Result<GetTryResponse> {
    Ok(connection.configuration().get_try(GetTryRequest {}).await?.into_inner())
}

/// Keeps what the try has changed. The connection is new, which shows that the changes let clients
/// connect. A node whose network does not have the changes yet needs another one.
pub async fn confirm(connection: &Connection) -> Result<Vec<String>> {
    let until = Instant::now() + NETWORK_TIME;
    let mut sent = connection.configuration().confirm_try(ConfirmTryRequest {}).await;
    while let Err(status) = &sent
        && status.code() == Code::Aborted
        && Instant::now() < until
    {
        sleep(PAUSE).await;
        let connection = connection.another().await?;
        sent = connection.configuration().confirm_try(ConfirmTryRequest {}).await;
    }
    sent?;
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
    Ok(Output::Lines(vec![line(&state(connection).await?)]))
}

fn line(GetTryResponse { running, remaining_seconds, caller, .. }: &GetTryResponse) -> String {
    match running {
        true => format!(
            "running: begun by {}, taken back in {remaining_seconds} s unless confirmed",
            printable(caller)
        ),
        false => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_breaks_the_connection_says_when_it_is_taken_back() {
        let error = |reverted: Option<&Status>| {
            with_end(Error::failed("the node does not answer"), reverted, 120).to_string()
        };
        let broken = Status::from_error(Box::new(std::io::Error::other("broken pipe")));
        assert!(error(Some(&broken)).contains("what was changed is taken back within 120 s"));
        let ended = Status::failed_precondition("there is no try");
        assert_eq!(error(Some(&ended)), error(None));
    }
}
