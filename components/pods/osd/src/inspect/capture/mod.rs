//! Packets of a link: a socket with a filter, whose ring the kernel fills while a client reads.

mod link;
mod own_connection;
mod request;
mod ring;
mod socket;
mod stream;

pub use own_connection::{add_to, connection_of};
pub use request::Request;
pub use socket::CaptureSocket;
pub use stream::run;

/// Captures at a time.
pub const MAX_CAPTURES: usize = 2;
