//! Images of pods: built from one program, or taken from an archive of the user's, carried together in one OCI image layout.

mod archive;
mod built;
mod layout;

pub use archive::from_archive;
pub use built::from_program;
pub use layout::{Descriptor, Image, Layout};
