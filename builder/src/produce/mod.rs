//! The stages of a build, from a locked plan to files. Each stage describes its work to the
//! [`engine`](crate::engine) and returns the input of the next stage.

pub mod aws;
pub mod boot_chain;
pub mod build;
mod bundle;
pub mod compile;
pub mod copy;
pub mod debian;
pub mod draft;
mod emptied_module;
pub mod exported;
pub mod fetch;
pub mod image;
pub mod initramfs;
pub mod inventory;
pub mod layers;
mod locked;
pub mod out;
pub mod parts;
pub mod podimage;
pub mod sandbox;
pub mod sign;
mod supply;
pub mod uki;
