//! PE32+ images (Microsoft's PE format), as far as UEFI and systemd's stub use them: a reader of
//! headers and sections, and writers that add sections and signatures. They are our own, because no
//! maintained crate adds anything to an image.

mod append;
mod certificates;
mod checksum;
mod error;
mod image;
mod raw;

pub use append::{Addition, Extended, NewSection, append, extend};
pub use certificates::{
    Attachment, attach, attachment, certificates, covered, covered_ahead, covered_by, detach,
};
pub use checksum::Checksum;
pub use error::Error;
pub use image::{Headers, Image, Section, SectionHeader};

/// `IMAGE_SCN_CNT_INITIALIZED_DATA` and `IMAGE_SCN_MEM_READ`: the characteristics of a section that
/// is only read.
pub const READ_ONLY_DATA: u32 = 0x4000_0040;
