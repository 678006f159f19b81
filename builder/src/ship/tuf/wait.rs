//! The crate that reads and signs TUF repositories is asynchronous, and the builder is not.

use crate::error::{Context, Result};
use std::future::Future;

/// Waits for `future` on this thread.
pub(super) fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.or_build(|| "cannot start a runtime".to_owned())?.block_on(future)
}
