//! `EFI_SIGNATURE_LIST` (UEFI 2.10, 32.4.1): the contents of `PK`, `KEK`, `db` and `dbx`, and of
//! `.esl` files.

use super::Error;
use crate::authenticode::Digest;
use crate::certificate::Certificate;
use uuid::{Uuid, uuid};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `EFI_CERT_X509_GUID` and `EFI_CERT_SHA256_GUID`
const X509: Uuid = uuid!("a5c059a1-94e4-4aa7-87b5-ab155c2bf072");
const SHA256: Uuid = uuid!("c1c41626-504c-4092-aca9-41f936934328");

/// The header of a list. An additional header of `header_size` bytes follows, and then signatures
/// of `signature_size` bytes.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ListHeader {
    signature_type: [u8; 16],
    list_size: U32,
    header_size: U32,
    signature_size: U32,
}

const HEADER: usize = size_of::<ListHeader>();
const _: () = assert!(HEADER == 28);
/// Bytes of the owner before each signature.
const OWNER: usize = 16;

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

    fn read(kind: [u8; 16], bytes: &[u8]) -> Result<Self, Error> {
        match Uuid::from_bytes_le(kind) {
            X509 => Certificate::from_der(bytes).map(Listed::from).map_err(Error::Certificate),
            SHA256 => bytes.try_into().map(Listed::Image).map_err(|_| Error::List),
            _ => Err(Error::OtherKind),
        }
    }
}

/// Returns lists of one entry each, because all entries of a list have the same length. `owner`
/// identifies the author of the entries.
pub fn write_list(listed: &[Listed], owner: Uuid) -> Vec<u8> {
    let mut out = Vec::new();
    for one in listed {
        let size = u32::try_from(OWNER + one.bytes().len())
            .expect("a certificate is far smaller than 4 GiB");
        let header = ListHeader {
            signature_type: one.kind().to_bytes_le(),
            list_size: (HEADER as u32 + size).into(),
            header_size: U32::ZERO,
            signature_size: size.into(),
        };
        out.extend(header.as_bytes());
        out.extend(owner.to_bytes_le());
        out.extend(one.bytes());
    }
    out
}

/// Reads the entries of lists.
///
/// # Errors
/// The lists are damaged, or hold something other than certificates with RSA keys and digests of
/// images.
pub fn read_list(bytes: &[u8]) -> Result<Vec<Listed>, Error> {
    entries(bytes)?.into_iter().map(|(kind, bytes)| Listed::read(kind, bytes)).collect()
}

/// Reads the entries of lists that a machine's manufacturer made, and skips everything except
/// certificates with RSA keys and digests of images.
///
/// # Errors
/// The lists are damaged.
pub fn read_known(bytes: &[u8]) -> Result<Vec<Listed>, Error> {
    Ok(entries(bytes)?
        .into_iter()
        .filter_map(|(kind, bytes)| Listed::read(kind, bytes).ok())
        .collect())
}

/// Type and bytes of an entry.
type Entry<'a> = ([u8; 16], &'a [u8]);

fn entries(mut bytes: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (head, _) = ListHeader::ref_from_prefix(bytes).map_err(|_| Error::List)?;
        let kind = head.signature_type;
        let [list, header, size] =
            [head.list_size, head.header_size, head.signature_size].map(|size| size.get() as usize);
        let start = HEADER.checked_add(header).ok_or(Error::List)?;
        let signatures = bytes.get(start..list).filter(|_| size > OWNER).ok_or(Error::List)?;
        if !signatures.len().is_multiple_of(size) {
            return Err(Error::List);
        }
        found.extend(signatures.chunks_exact(size).map(|signature| (kind, &signature[OWNER..])));
        bytes = &bytes[list..];
    }
    Ok(found)
}
