//! A signed update of a variable (`EFI_VARIABLE_AUTHENTICATION_2`, UEFI 2.10, 8.2.2): the format of
//! `.auth` files.

use super::{ATTRIBUTES, Error, Variable};
use crate::certificate::Certificate;
use crate::pkcs7::{self, Content};
use der::Encode;
use uuid::{Uuid, uuid};

/// `EFI_CERT_TYPE_PKCS7_GUID`
const PKCS7: Uuid = uuid!("4aafd29d-68df-49ee-8aa9-347d375665a7");

/// Bytes of `WIN_CERTIFICATE_UEFI_GUID`: length, revision, type and GUID, before the signature.
const HEADER: usize = 24;

/// `WIN_CERT_REVISION` and `WIN_CERT_TYPE_EFI_GUID`
const REVISION: u16 = 0x0200;
const EFI_GUID: u16 = 0x0EF1;

/// The timestamp of an update. The firmware refuses an update that is not newer than the variable's
/// last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UpdateTime {
    /// The year.
    pub year: u16,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
    /// The second of the day, which numbers the updates of one day.
    pub second: u32,
}

/// New content for a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The variable.
    pub variable: Variable,
    /// Its timestamp.
    pub time: UpdateTime,
    /// The new content: signature lists.
    pub content: Vec<u8>,
}

impl UpdateTime {
    /// `EFI_TIME`
    pub(super) fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&self.year.to_le_bytes());
        let [hour, minute, second] =
            [self.second / 3600 % 24, self.second / 60 % 60, self.second % 60]
                .map(|part| part as u8);
        bytes[2..7].copy_from_slice(&[self.month, self.day, hour, minute, second]);
        bytes
    }
}

impl Update {
    /// Returns the bytes to be signed with the owner's key (`PK`), or for `db` and `dbx` with that
    /// of `KEK`: RSASSA-PKCS1-v1_5 with SHA-256.
    pub fn to_be_signed(&self) -> Vec<u8> {
        let name = self.variable.name().encode_utf16().flat_map(u16::to_le_bytes);
        let mut message: Vec<u8> = name.collect();
        message.extend(self.variable.vendor().to_bytes_le());
        message.extend(ATTRIBUTES.to_le_bytes());
        message.extend(self.time.bytes());
        message.extend(&self.content);
        message
    }

    /// Returns the update with a signature of the bytes of [`Update::to_be_signed`].
    ///
    /// # Errors
    /// The signature was not made for this update with this certificate's key.
    pub fn signed(&self, certificate: &Certificate, signature: &[u8]) -> Result<Vec<u8>, Error> {
        if !certificate.verifies(&self.to_be_signed(), signature) {
            return Err(Error::OtherKey(certificate.name()));
        }
        // The firmware expects the bare `SignedData` here, without a `ContentInfo`.
        let signed = pkcs7::signed_data(&Content::Elsewhere, certificate, signature)
            .and_then(|signed| signed.to_der());
        let signed = signed.map_err(Error::SignedData)?;
        let mut out = self.time.bytes().to_vec();
        let length = u32::try_from(HEADER + signed.len()).expect("a signature is far below 4 GiB");
        out.extend(length.to_le_bytes());
        out.extend(REVISION.to_le_bytes());
        out.extend(EFI_GUID.to_le_bytes());
        out.extend(PKCS7.to_bytes_le());
        out.extend(signed);
        out.extend(&self.content);
        Ok(out)
    }
}
