//! The `bootstrap` pod: finds the node document that belongs to its machine, and places it on DATA
//! once.
//!
//! A source ([`fw_cfg`], [`volume`], [`imds`], [`clouds`]) gives bytes and the machine's
//! identifier. [`user_data`] decodes the bytes, [`trust`] opens the envelope of a signed document,
//! and [`decision`] says what to do with the document. [`place`] does it.

#![forbid(unsafe_code)]

pub mod clouds;
pub mod decision;
pub mod dmi;
pub mod fw_cfg;
mod http;
pub mod imds;
pub mod instance;
pub mod place;
pub mod trust;
pub mod user_data;
pub mod volume;

use instance::Instance;

/// The machine's identifier and document, as read from a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which machine this is.
    pub instance: Instance,
    /// The document, as the source delivers it.
    pub bytes: Vec<u8>,
}
