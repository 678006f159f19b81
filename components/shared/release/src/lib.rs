//! A release: what its document says, and what the document and its files are called as targets of
//! a TUF repository.
//!
//! The builder writes these documents and the node reads them. Whether one may be believed is not a
//! matter of this crate: TUF has its digest.

mod channel;
mod document;
mod sha256;
pub mod target;

pub use channel::{Channel, UnknownChannel};
pub use document::{Architecture, Document, File, Refusal};
pub use sha256::Sha256;
