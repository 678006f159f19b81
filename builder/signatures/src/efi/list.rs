//! `EFI_SIGNATURE_LIST` (UEFI 2.10, 32.4.1): what `PK`, `KEK`, `db` and `dbx` hold, and what files
//! named `.esl` are.

use super::Error;
use crate::authenticode::Digest;
use crate::certificate::Certificate;
use uuid::{Uuid, uuid};

/// `EFI_CERT_X509_GUID` and `EFI_CERT_SHA256_GUID`
const X509: Uuid = uuid!("a5c059a1-94e4-4aa7-87b5-ab155c2bf072");
const SHA256: Uuid = uuid!("c1c41626-504c-4092-aca9-41f936934328");

/// Bytes of a list before its signatures, and of an owner before each of them.
const HEADER: usize = 28;
const OWNER: usize = 16;

/// What is trusted, or no longer trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All that the certificate's key signed.
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

/// Lists of these, each in one of its own, as all of a list have the same length. `owner` says who
/// put them there.
pub fn write_list(listed: &[Listed], owner: Uuid) -> Vec<u8> {
    let mut out = Vec::new();
    for one in listed {
        let size = OWNER + one.bytes().len();
        out.extend(one.kind().to_bytes_le());
        for length in [HEADER + size, 0, size] {
            out.extend(
                u32::try_from(length).expect("a certificate is far below 4 GiB").to_le_bytes(),
            );
        }
        out.extend(owner.to_bytes_le());
        out.extend(one.bytes());
    }
    out
}

/// What is in lists.
///
/// # Errors
/// The lists are damaged, or hold something else than certificates with RSA keys and images'
/// digests.
pub fn read_list(bytes: &[u8]) -> Result<Vec<Listed>, Error> {
    entries(bytes)?.into_iter().map(|(kind, bytes)| Listed::read(kind, bytes)).collect()
}

/// What is in lists that a machine's maker has begun: whatever is no certificate with an RSA key
/// and no image's digest is passed over.
///
/// # Errors
/// The lists are damaged.
pub fn read_known(bytes: &[u8]) -> Result<Vec<Listed>, Error> {
    Ok(entries(bytes)?
        .into_iter()
        .filter_map(|(kind, bytes)| Listed::read(kind, bytes).ok())
        .collect())
}

/// Kind and bytes of an entry.
type Entry<'a> = ([u8; 16], &'a [u8]);

fn entries(mut bytes: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (kind, [list, header, size]) = header(bytes).ok_or(Error::List)?;
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

/// The type of the list's signatures, and the sizes of the list, of a further header, and of each
/// signature.
fn header(bytes: &[u8]) -> Option<([u8; 16], [usize; 3])> {
    let (kind, rest) = bytes.split_first_chunk::<16>()?;
    let (sizes, _) = rest.split_first_chunk::<12>()?;
    let size = |index: usize| {
        u32::from_le_bytes([sizes[index], sizes[index + 1], sizes[index + 2], sizes[index + 3]])
            as usize
    };
    Some((*kind, [size(0), size(4), size(8)]))
}
