//! A release: its document, the names of the document and of its files as targets of a TUF
//! repository, and the newest metadata of one that a client has seen.
//!
//! The builder writes these documents and the node reads them. This crate does not authenticate
//! them: TUF does, with their digests.

mod channel;
mod document;
mod newest;
mod sha256;
pub mod target;

pub use channel::{Channel, UnknownChannel};
pub use document::{Architecture, Document, File, Refusal};
pub use newest::{Malformed, Newest, Older};
pub use sha256::Sha256;
