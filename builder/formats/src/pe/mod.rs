//! PE32+ images (Microsoft's PE format), as far as UEFI and systemd's stub use them: a reader of headers and sections, and
//! writers that add sections and signatures. They are our own, as no kept crate adds anything to an image.

mod append;
mod certificates;
mod checksum;
mod error;
mod image;

pub use append::{NewSection, append};
pub use certificates::{attach, certificates, covered, covered_ahead, detach};
pub use error::Error;
pub use image::{Image, Section};

/// `IMAGE_SCN_CNT_INITIALIZED_DATA` and `IMAGE_SCN_MEM_READ`: the characteristics of a section that is only read.
pub const READ_ONLY_DATA: u32 = 0x4000_0040;
