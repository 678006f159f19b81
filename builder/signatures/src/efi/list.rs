//! The entries of signature lists that we know: those of `PK`, `KEK`, `db` and `dbx`, and of `.esl`
//! files.

use super::Error;
use crate::authenticode::Digest;
use crate::certificate::Certificate;
use osbuild_formats::signature_list::{Entry, SHA256, X509, append, entries};
use uuid::Uuid;

/// An entry of a list, which trusts or revokes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Everything that the certificate's key signed.
    Certificate(Box<Certificate>),
    /// The image with this Authenticode digest.
    Image(Digest),
}

impl From<Certificate> for Listed {
    fn from(certificate: Certificate) -> Self {
        Listed::Certificate(Box::new(certificate))
    }
}

impl Listed {
    fn kind(&self) -> Uuid {
        match self {
            Listed::Certificate(_) => X509,
            Listed::Image(_) => SHA256,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Listed::Certificate(certificate) => certificate.der(),
            Listed::Image(digest) => digest,
        }
    }

    fn read(Entry { kind, bytes }: Entry<'_>) -> Result<Self, Error> {
        match kind {
            X509 => Certificate::from_der(bytes).map(Listed::from).map_err(Error::Certificate),
            SHA256 => bytes.try_into().map(Listed::Image).map_err(|_| Error::List),
            _ => Err(Error::OtherKind),
        }
    }
}

/// Returns lists of one entry each, because all entries of a list have the same length. `owner`
/// identifies the author of the entries.
pub fn write_list(listed: &[Listed], owner: Uuid) -> Vec<u8> {
    let mut lists = Vec::new();
    for one in listed {
        append(&mut lists, Entry { kind: one.kind(), bytes: one.bytes() }, owner);
    }
    lists
}

/// Reads the entries of lists.
///
/// # Errors
/// The lists are damaged, or hold something other than certificates with RSA keys and digests of
/// images.
pub fn read_list(bytes: &[u8]) -> Result<Vec<Listed>, Error> {
    entries(bytes).map_err(|_| Error::List)?.into_iter().map(Listed::read).collect()
}

/// Reads the entries of lists that a machine's manufacturer made, and skips everything except
/// certificates with RSA keys and digests of images.
///
/// # Errors
/// The lists are damaged.
pub fn read_known(bytes: &[u8]) -> Result<Vec<Listed>, Error> {
    let entries = entries(bytes).map_err(|_| Error::List)?;
    Ok(entries.into_iter().filter_map(|entry| Listed::read(entry).ok()).collect())
}
