//! Errors of signature lists, updates and variable stores.

use crate::certificate;
use std::fmt;

/// Why a list or a variable store was not read or written.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The lengths in a list contradict each other.
    List,
    /// A list holds something other than certificates and digests.
    OtherKind,
    /// A list holds a certificate of another kind than ours.
    Certificate(certificate::Error),
    /// The file has no firmware volume with a store of authenticated variables.
    NoStore,
    /// A variable in the store is damaged.
    Variable,
    /// The store is too small for the variables.
    Full,
    /// A signature could not be written.
    SignedData(der::Error),
    /// The update was not signed with the key of the certificate of this name.
    OtherKey(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List => write!(f, "the EFI signature list is damaged"),
            Self::OtherKind => write!(
                f,
                "the EFI signature list holds more than certificates and digests of images"
            ),
            Self::Certificate(_) => {
                write!(f, "the EFI signature list holds a certificate of another kind")
            }
            Self::NoStore => write!(f, "the file holds no store of UEFI variables"),
            Self::Variable => write!(f, "a variable in the store is damaged"),
            Self::Full => write!(f, "the store of UEFI variables has no room left"),
            Self::SignedData(_) => write!(f, "the signature cannot be written"),
            Self::OtherKey(name) => write!(f, "the signature was not made by the key of `{name}`"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Certificate(error) => Some(error),
            Self::SignedData(error) => Some(error),
            _ => None,
        }
    }
}
