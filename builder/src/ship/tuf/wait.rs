//! Calls the asynchronous API of `tough` from the synchronous builder.

use crate::error::{Context, Result};
use std::future::Future;

/// Runs `future` to its end on this thread.
pub(super) fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.or_build(|| "cannot start a runtime".to_owned())?.block_on(future)
}
