//! The part of logind that the kubelet needs to end pods before the node shuts down: it takes an
//! inhibitor lock, waits for the signal `PrepareForShutdown`, ends its pods, and closes the lock.
//! [`Session`] serves one client of the system bus; it is bus and logind in one.
//!
//! The crate is pure: bytes of the client go in, and bytes and requests for a descriptor come out.
//! It implements as much of `org.freedesktop.login1(5)` and of the D-Bus specification
//! (<https://dbus.freedesktop.org/doc/dbus-specification.html>) as these calls need.

mod error_reply;
mod handshake;
mod login1;
mod match_rule;
mod message;
mod reader;
mod session;
mod skip;
mod writer;

pub use handshake::Guid;
pub use login1::{Login1, MAX_INHIBITORS};
pub use message::{Kind, MAX_MESSAGE, Message};
pub use reader::{Malformed, Order};
pub use session::{Output, Received, Session};

/// The name of the bus itself, and its object.
const BUS: &str = "org.freedesktop.DBus";
/// The name of logind.
const LOGIND: &str = "org.freedesktop.login1";
/// The unique name of logind. Those of clients have other numbers.
const LOGIND_UNIQUE: &str = ":1.0";
/// The object and the interface of logind that the kubelet calls.
const MANAGER_PATH: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
/// The signal that a shutdown begins.
const PREPARE_FOR_SHUTDOWN: &str = "PrepareForShutdown";
