//! Errors of PE images.

use alloc::string::String;
use core::fmt;

/// Why an image was not read or not extended.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes end before this part.
    Truncated(&'static str),
    /// The bytes do not begin with `MZ`, or there is no `PE` header at the offset that they name.
    NotPe,
    /// The image is not PE32+ but has this magic number.
    NotPe32Plus(u16),
    /// This alignment is not a power of two within the limits of the format.
    Alignment(u32),
    /// The data of this section are not within the file.
    SectionData(String),
    /// The name of this section is empty, longer than 8 bytes, or a reference to a string table.
    SectionName(String),
    /// The image has a section of this name already.
    SectionExists(String),
    /// The header has no room for this many more sections.
    NoRoom(usize),
    /// The image is signed. An addition would invalidate the signature.
    Signed,
    /// The header has no data directory for a certificate table.
    NoCertificateDirectory,
    /// The certificate table is not at the end of the file, overlaps the image, holds anything
    /// other than signatures, or is too large.
    CertificateTable,
    /// The data of this section do not immediately follow those before it, so a signature would not
    /// cover every byte exactly once.
    Layout(String),
    /// The image would be larger than the format allows (4 GiB).
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(part) => write!(f, "the PE image ends before its {part}"),
            Self::NotPe => write!(f, "no PE image: `MZ` or `PE` is missing"),
            Self::NotPe32Plus(magic) => {
                write!(f, "the PE image is of kind `{magic:#x}`, not PE32+")
            }
            Self::Alignment(value) => {
                write!(f, "the PE image has an impossible alignment of `{value}` bytes")
            }
            Self::SectionData(name) => {
                write!(f, "the data of PE section `{name}` lie outside the file")
            }
            Self::SectionName(name) => write!(f, "`{name}` is not a valid name for a PE section"),
            Self::SectionExists(name) => write!(f, "the PE image has a section `{name}` already"),
            Self::NoRoom(count) => {
                write!(f, "the PE header has no room for `{count}` more sections")
            }
            Self::Signed => write!(f, "the PE image is signed already"),
            Self::NoCertificateDirectory => write!(f, "the PE header has no room for a signature"),
            Self::CertificateTable => write!(f, "the certificate table of the PE image is damaged"),
            Self::Layout(name) => {
                write!(f, "the data of PE section `{name}` do not follow those before it")
            }
            Self::TooLarge => write!(f, "the PE image would be larger than 4 GiB"),
        }
    }
}

impl core::error::Error for Error {}
