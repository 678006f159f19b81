//! Debug containers: `init` makes the pod, the kubelet runs it, and the program in it
//! ([`attach`](crate::attach)) connects with `osd`, which forwards messages between it and the
//! client.

pub mod call;
mod news;
pub mod request;
pub mod waiting;

/// The metadata of a call of the service `Attach` with the identifier of its container.
pub const ID: &str = "osbuild-debug";
