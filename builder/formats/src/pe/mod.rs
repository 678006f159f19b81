//! PE32+ images (Microsoft's PE format), as far as UEFI and systemd's stub use them: a reader of headers and sections, and
//! a writer that adds sections. It is our own, as no kept crate adds sections to an image.

mod append;
mod error;
mod image;

pub use append::{NewSection, append};
pub use error::Error;
pub use image::{Image, Section};
