//! `EFI_SIGNATURE_LIST` (UEFI 2.10, 32.4.1): what `PK`, `KEK` and `db` hold, and what files named `.esl` are.

use super::Error;
use crate::certificate::Certificate;
use uuid::{Uuid, uuid};

/// `EFI_CERT_X509_GUID`
const X509: Uuid = uuid!("a5c059a1-94e4-4aa7-87b5-ab155c2bf072");

/// Bytes of a list before its signatures, and of an owner before each of them.
const HEADER: usize = 28;
const OWNER: usize = 16;

/// Lists with these certificates, each in one of its own, as all of a list have the same length. `owner` says who put them there.
pub fn write_list(certificates: &[&Certificate], owner: Uuid) -> Vec<u8> {
    let mut out = Vec::new();
    for certificate in certificates {
        let size = OWNER + certificate.der().len();
        out.extend(X509.to_bytes_le());
        for length in [HEADER + size, 0, size] {
            out.extend(u32::try_from(length).expect("a certificate is far below 4 GiB").to_le_bytes());
        }
        out.extend(owner.to_bytes_le());
        out.extend(certificate.der());
    }
    out
}

/// The certificates of lists.
///
/// # Errors
/// The lists are damaged, or hold something else than certificates with RSA keys.
pub fn read_list(mut bytes: &[u8]) -> Result<Vec<Certificate>, Error> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (kind, [list, header, size]) = header(bytes).ok_or(Error::List)?;
        if kind != X509.to_bytes_le() {
            return Err(Error::NotCertificates);
        }
        let start = HEADER.checked_add(header).ok_or(Error::List)?;
        let signatures = bytes.get(start..list).filter(|_| size > OWNER).ok_or(Error::List)?;
        if !signatures.len().is_multiple_of(size) {
            return Err(Error::List);
        }
        for signature in signatures.chunks_exact(size) {
            found.push(Certificate::from_der(&signature[OWNER..]).map_err(Error::Certificate)?);
        }
        bytes = &bytes[list..];
    }
    Ok(found)
}

/// The type of the list's signatures, and the sizes of the list, of a further header, and of each signature.
fn header(bytes: &[u8]) -> Option<([u8; 16], [usize; 3])> {
    let (kind, rest) = bytes.split_first_chunk::<16>()?;
    let (sizes, _) = rest.split_first_chunk::<12>()?;
    let size = |index: usize| u32::from_le_bytes([sizes[index], sizes[index + 1], sizes[index + 2], sizes[index + 3]]) as usize;
    Some((*kind, [size(0), size(4), size(8)]))
}
