//! `EFI_SIGNATURE_LIST` (UEFI 2.10, 32.4.1): the contents of the firmware's variables `PK`, `KEK`,
//! `db` and `dbx`, and of `.esl` files.

use alloc::vec::Vec;

use uuid::{Uuid, uuid};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The kind of an entry that is a certificate in DER (`EFI_CERT_X509_GUID`).
pub const X509: Uuid = uuid!("a5c059a1-94e4-4aa7-87b5-ab155c2bf072");
/// The kind of an entry that is the digest of an image (`EFI_CERT_SHA256_GUID`).
pub const SHA256: Uuid = uuid!("c1c41626-504c-4092-aca9-41f936934328");

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

/// The error for bytes that are no lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// An entry of a list, which trusts or revokes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its kind, such as [`X509`].
    pub kind: Uuid,
    /// Its bytes, without its owner.
    pub bytes: &'a [u8],
}

/// Appends a list of this one entry to `lists`: all entries of a list have the same length. `owner`
/// identifies the author of the entry.
pub fn append(lists: &mut Vec<u8>, entry: Entry<'_>, owner: Uuid) {
    let size =
        u32::try_from(OWNER + entry.bytes.len()).expect("a certificate is far smaller than 4 GiB");
    let header = ListHeader {
        signature_type: entry.kind.to_bytes_le(),
        list_size: (HEADER as u32 + size).into(),
        header_size: U32::ZERO,
        signature_size: size.into(),
    };
    lists.extend(header.as_bytes());
    lists.extend(owner.to_bytes_le());
    lists.extend(entry.bytes);
}

/// Reads the entries of lists.
///
/// # Errors
/// The lists are damaged.
pub fn entries(mut lists: &[u8]) -> Result<Vec<Entry<'_>>, Damaged> {
    let mut found = Vec::new();
    while !lists.is_empty() {
        let (head, _) = ListHeader::ref_from_prefix(lists).map_err(|_| Damaged)?;
        let kind = Uuid::from_bytes_le(head.signature_type);
        let [list, header, size] =
            [head.list_size, head.header_size, head.signature_size].map(|size| size.get() as usize);
        let start = HEADER.checked_add(header).ok_or(Damaged)?;
        let signatures = lists.get(start..list).filter(|_| size > OWNER).ok_or(Damaged)?;
        if !signatures.len().is_multiple_of(size) {
            return Err(Damaged);
        }
        let bytes = signatures.chunks_exact(size).map(|signature| &signature[OWNER..]);
        found.extend(bytes.map(|bytes| Entry { kind, bytes }));
        lists = &lists[list..];
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back_and_a_damaged_list_is_refused() {
        let written =
            [Entry { kind: X509, bytes: b"DER" }, Entry { kind: SHA256, bytes: &[7; 32] }];
        let mut lists = Vec::new();
        written.into_iter().for_each(|entry| append(&mut lists, entry, Uuid::nil()));
        assert_eq!(entries(&lists).as_deref(), Ok(&written[..]));
        for end in 1..lists.len() {
            let is_whole = end == HEADER + OWNER + 3;
            assert_eq!(entries(&lists[..end]).is_ok(), is_whole, "{end} bytes");
        }
    }
}
