//! Errors of signatures.

use osbuild_formats::pe;
use std::fmt;

/// Why something was not signed or not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The image cannot be read or signed.
    Image(pe::Error),
    /// The image cannot be read to its end.
    Read(std::io::ErrorKind),
    /// The image has no signature.
    Unsigned,
    /// A signature is not a PKCS#7 `SignedData`.
    SignedData(der::Error),
    /// A signature is of a kind that UEFI does not verify.
    Unsupported(&'static str),
    /// The content is not the signed content.
    Digest,
    /// The signature was made with another key than that of the certificate of this name, or for
    /// other content.
    OtherKey(String),
    /// The signatures of these signers are not trusted.
    NotTrusted(Vec<String>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(_) => write!(f, "the PE image cannot have a signature"),
            Self::Read(kind) => write!(f, "it cannot be read: {kind}"),
            Self::Unsigned => write!(f, "it is not signed"),
            Self::SignedData(_) => write!(f, "the signature is damaged"),
            Self::Unsupported(what) => {
                write!(f, "the signature has {what}, which UEFI does not verify")
            }
            Self::Digest => write!(f, "it is not what was signed"),
            Self::OtherKey(name) => {
                write!(f, "the signature is not one of this by the key of `{name}`")
            }
            Self::NotTrusted(names) => {
                write!(f, "it is signed by `{}`, which is not trusted", names.join("`, `"))
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Image(error) => Some(error),
            Self::SignedData(error) => Some(error),
            _ => None,
        }
    }
}
