//! Changes that can keep everybody from reaching the node. This program makes them in a try, and
//! confirms the try once it has reached the node over a new connection.

use super::note;
use super::tries;
use crate::cli::Unguarded;
use crate::connection::Connection;
use crate::error::{Error, Result};
use osbuild_cosi::v1::{BeginTryRequest, ConfirmTryRequest, GetTryRequest, RevertTryRequest};
use std::error::Error as _;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::Code;

/// How long the try lasts: the node takes the changes back then.
const TIMEOUT_SECONDS: u32 = 60;
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_SECONDS as u64);

/// How long a change may take to have its effect on the network. A connection that is opened
/// earlier does not show that the node is reached with the change.
const EFFECT: Duration = Duration::from_secs(5);

/// The pause before the node is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// The least time that a try must have left for its confirmation, which takes a while to arrive.
const MARGIN: Duration = Duration::from_secs(5);

/// A try around a change, if the change needs one. [`Guard::end`] confirms it or takes it back.
pub struct Guard<'a> {
    connection: &'a Connection,
    /// When the try has begun, if this program has begun one.
    began: Option<Instant>,
}

impl<'a> Guard<'a> {
    /// Begins a try if the change needs one. A change during a running try is a part of that try,
    /// which its own caller confirms.
    pub async fn begin(
        connection: &'a Connection,
        Unguarded { no_try }: Unguarded,
        may_disconnect: impl AsyncFn() -> Result<bool>,
    ) -> Result<Guard<'a>> {
        if no_try || !may_disconnect().await? {
            return Ok(Guard { connection, began: None });
        }
        let hint =
            |error: Error| error.hint("`--no-try` keeps the change even if it cuts the node off");
        match connection.configuration().get_try(GetTryRequest {}).await {
            Ok(state) if !state.get_ref().running => {}
            Ok(state) => {
                connection.be_part_of(state.get_ref().number);
                return Ok(Guard { connection, began: None });
            }
            // Nothing acts on the settings, so they cut nothing off.
            Err(status) if status.code() == Code::Unimplemented => {
                return Ok(Guard { connection, began: None });
            }
            Err(status) => return Err(hint(status.into())),
        }
        let request = BeginTryRequest { timeout_seconds: TIMEOUT_SECONDS };
        let begun = connection.configuration().begin_try(request).await;
        let begun = begun.map_err(|status| hint(status.into()))?;
        connection.be_part_of(begun.get_ref().number);
        Ok(Guard { connection, began: Some(Instant::now()) })
    }

    /// Ends the try. Confirms a change once the node is reached again; takes the try of a failed
    /// change back.
    pub async fn end<T, E>(self, changed: std::result::Result<T, E>) -> std::result::Result<T, E>
    where
        E: From<Error>,
    {
        match (self.began, &changed) {
            (None, Ok(_)) => tries::note_try(self.connection).await,
            (None, Err(_)) => {}
            (Some(began), Ok(_)) => self.confirm(began).await?,
            (Some(_), Err(_)) => self.revert().await?,
        }
        self.connection.be_part_of(0);
        changed
    }

    /// Takes back what a failed change has left. The answer to a change that cuts the node off is
    /// lost with the connection, so a node that is not reached now may have made it.
    async fn revert(&self) -> Result<()> {
        match self.connection.configuration().revert_try(RevertTryRequest {}).await {
            Err(status) if status.source().is_some() => Err(lost(&status.into())),
            _ => Ok(()),
        }
    }

    async fn confirm(&self, began: Instant) -> Result<()> {
        note(&format!(
            "taken back in {TIMEOUT_SECONDS} s unless the node is reached over a new connection"
        ));
        sleep(EFFECT).await;
        // An attempt to connect takes a while.
        let is_late = || began.elapsed() + MARGIN > TIMEOUT;
        let mut is_unanswered = false;
        loop {
            let connection = match self.connection.another().await {
                Ok(connection) => connection,
                Err(error) if is_late() => return Err(lost(&error)),
                Err(_) => {
                    sleep(PAUSE).await;
                    continue;
                }
            };
            match connection.configuration().confirm_try(ConfirmTryRequest {}).await {
                // The network of the node does not have the changes yet.
                Err(status) if status.code() == Code::Aborted && !is_late() => sleep(PAUSE).await,
                // The link may go down once more, and the node may have the request or not.
                Err(status) if status.source().is_some() && !is_late() => {
                    is_unanswered = true;
                    sleep(PAUSE).await;
                }
                Err(status) if status.source().is_some() => return Err(lost(&status.into())),
                Err(status) if status.code() == Code::FailedPrecondition && is_unanswered => {
                    return Err(unknown(&status.into(), &connection.arguments()));
                }
                // The node was reached because it has taken the changes back.
                Err(status) if status.code() == Code::FailedPrecondition && is_late() => {
                    return Err(lost(&status.into()));
                }
                Err(status) => return Err(status.into()),
                Ok(_) => break,
            }
        }
        note("the node is reached: the changes are kept");
        Ok(())
    }
}

/// The node had the confirmation perhaps, whose answer is lost.
fn unknown(error: &Error, arguments: &str) -> Error {
    Error::failed("the try has ended, and it is not known whether the changes are kept")
        .cause(error.in_one_line())
        .hint(format!("`osctl history{arguments}` shows them if they are"))
}

fn lost(error: &Error) -> Error {
    Error::failed("the node is not reached any more, so it takes the changes back")
        .cause(error.in_one_line())
        .hint("`--no-try` makes changes after which another machine reaches the node")
}
