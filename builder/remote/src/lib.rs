//! A client for caches of builds: results of actions by the digest of the action, and blobs by
//! their own. It speaks the Remote Execution API, version 2, and the plain HTTP of bazel-remote.
//! Decision 52 explains what a build asks of it. A server of that API may also execute actions, as
//! decision 53 explains.
//!
//! [`Cache`] is the whole client. It blocks, retries temporary failures, checks the digest of every
//! blob, and gives up after a fixed time without progress.

mod access;
mod address;
mod blob;
mod cache;
mod checked;
mod chunks;
mod credentials;
mod execution;
mod fault;
mod grpc;
mod headers;
mod http;
mod limits;
mod message;
mod operation;
mod progress;
mod raw;
mod retry;

pub use access::Access;
pub use address::{Address, InvalidAddress, Protocol};
pub use blob::BlobId;
pub use cache::{Cache, Source};
pub use execution::Executed;
pub use fault::Fault;
pub use progress::Traffic;
pub use retry::Retry;
