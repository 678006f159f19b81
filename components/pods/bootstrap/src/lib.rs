//! The `bootstrap` pod: finds the node document that belongs to its machine, and places it on DATA
//! once.
//!
//! A source ([`fw_cfg`], [`imds`]) gives bytes and the machine's identifier. [`user_data`] decodes
//! the bytes, and [`decision`] says what to do with the document. [`place`] does it.

#![forbid(unsafe_code)]

pub mod decision;
pub mod fw_cfg;
pub mod imds;
pub mod instance;
pub mod place;
pub mod user_data;

use instance::Instance;

/// The machine's identifier and document, as read from a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which machine this is.
    pub instance: Instance,
    /// The document, as the source delivers it.
    pub bytes: Vec<u8>,
}
