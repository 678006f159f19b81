//! Images of pods: built from a program and what it installs, or taken from an archive of the
//! user's, carried together in one OCI image layout.

mod archive;
mod built;
pub mod dynamic;
mod layout;

pub use archive::{from_archive, keep};
pub use built::{Files, from_program};
pub use layout::{Descriptor, Image, Layout};
