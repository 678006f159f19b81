//! Access control: the caller behind each connection, the role that each call needs, the rules that
//! exclude clients, and a record of the calls.

pub mod announce;
pub mod authentication;
pub mod caller;
pub mod clients;
pub mod custom_role;
pub mod expiry;
pub mod guard;
pub mod identity;
mod line_pace;
mod line_queue;
mod metered;
pub mod quota;
pub mod record;
pub mod revocation;
pub mod rules;
mod sys;
pub mod tls;
pub mod token;

pub use caller::{Caller, Role};
pub use custom_role::Verb;
