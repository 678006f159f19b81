//! Resources as COSI defines them, and the [`Store`] that holds them in memory.
//!
//! A writer decides the [`Content`] of a resource; the store adds version, owner and times. Each
//! [`Kind`] has a history of its last changes, from which a [`Cursor`] reads what a watch has not
//! seen yet. So a watch costs the store a position, and a slow one loses its place instead of
//! filling memory.
//!
//! The crate is pure: time and random bytes come in as arguments, and waiting for a change
//! happens elsewhere. It knows neither protocol buffers nor YAML, so a [`Spec`] is opaque.

#![forbid(unsafe_code)]

mod bookmark;
mod definition;
mod error;
mod history;
mod key;
mod labels;
mod number;
mod phase;
mod query;
mod resource;
mod secrets;
mod store;
mod version;
mod watch;

pub use bookmark::{Bookmark, Cookie};
pub use definition::{Definition, InvalidDefinition, Names, PrintColumn, Sensitivity};
pub use error::{Error, Limit};
pub use history::Change;
pub use key::{InvalidName, Key, Kind};
pub use labels::{LabelQuery, LabelTerm, Labels, Test};
pub use number::Number;
pub use phase::{Phase, UnknownPhase};
pub use query::{IdQuery, InvalidPattern, Query};
pub use resource::{Content, Owner, Resource, Spec};
pub use secrets::Secrets;
pub use store::{Expected, Limits, Room, Store};
pub use version::{InvalidVersion, Version};
pub use watch::{Cursor, Event, Overrun, Start, Target};
