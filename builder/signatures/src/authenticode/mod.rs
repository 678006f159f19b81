//! Authenticode signatures of PE images (Microsoft's "Windows Authenticode Portable Executable
//! Signature Format"), as UEFI's Secure Boot verifies them: RSA PKCS#1 v1.5 with SHA-256.
//!
//! The owner of the private key signs the bytes of [`to_be_signed`]; [`sign`] puts that signature
//! into the image. This crate handles no private keys.

mod hasher;
mod signature;

pub use crate::error::Error;
pub use hasher::Hasher;
pub use signature::{Signature, Verified, signatures, verify, verify_hashed};

use crate::certificate::Certificate;
use crate::pkcs7;
use ::authenticode::{
    DigestInfo, SPC_INDIRECT_DATA_OBJID, SpcAttributeTypeAndOptionalValue, SpcIndirectDataContent,
};
use const_oid::db::rfc5912::ID_SHA_256;
use der::Any;
use der::asn1::{ObjectIdentifier, OctetString};
use osbuild_formats::pe;
use sha2::{Digest as _, Sha256};
use std::io::Read;

/// SHA-256 of the bytes that a signature covers.
pub type Digest = [u8; 32];

/// Bytes of an image that are read at once.
const CHUNK: usize = 256 << 10;

/// `SPC_PE_IMAGE_DATAOBJ`
const PE_IMAGE_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.15");

/// `SpcPeImageData` as all signers write it: no flags, and the text `<<<Obsolete>>>` in UTF-16 as
/// the file.
const OBSOLETE: &[u8] =
    b"\x03\x01\x00\xA0\x20\xA2\x1E\x80\x1C\0<\0<\0<\0O\0b\0s\0o\0l\0e\0t\0e\0>\0>\0>";

/// Returns the digest of an image. Signing does not change it.
///
/// # Errors
/// `image` is not a PE image, or not every byte of it belongs to exactly one section.
pub fn digest(image: &[u8]) -> Result<Digest, Error> {
    let mut hasher = Sha256::new();
    let covered = pe::covered(image).map_err(Error::Image)?;
    let end = covered[2].end;
    covered.into_iter().for_each(|range| hasher.update(&image[range]));
    Ok(padded(hasher, end))
}

/// Does the same for an image of `length` bytes with these headers, read from its start.
///
/// # Errors
/// Those of [`digest`], or [`Error::Read`] if it cannot be read to its end.
pub fn digest_of(
    headers: &pe::Headers,
    length: u64,
    mut image: impl Read,
) -> Result<Digest, Error> {
    let covered = pe::covered_by(headers, length).map_err(Error::Image)?;
    let (mut hasher, mut at, end) = (Sha256::new(), 0, covered[2].end);
    let mut chunk = vec![0; CHUNK];
    for range in covered {
        for (until, is_covered) in [(range.start, false), (range.end, true)] {
            while at < until {
                let piece = &mut chunk[..CHUNK.min(until - at)];
                image.read_exact(piece).map_err(|error| Error::Read(error.kind()))?;
                if is_covered {
                    hasher.update(&*piece);
                }
                at += piece.len();
            }
        }
    }
    Ok(padded(hasher, end))
}

/// Completes the digest with the padding that an unsigned image of `end` bytes gets before a
/// signature is added.
fn padded(mut hasher: Sha256, end: usize) -> Digest {
    hasher.update(&[0; 8][..end.next_multiple_of(8) - end]);
    hasher.finalize().into()
}

/// Returns the bytes to be signed for an image with this digest: the DER of the signed attributes.
/// The signature is RSASSA-PKCS1-v1_5 with SHA-256.
pub fn to_be_signed(digest: &Digest) -> Vec<u8> {
    let attributes =
        content(digest).and_then(|content| pkcs7::attributes(SPC_INDIRECT_DATA_OBJID, &content));
    attributes.expect("a digest always has a DER form")
}

/// Adds a signature of the bytes of [`to_be_signed`] to `image`. Existing signatures stay.
///
/// # Errors
/// The signature was not made for this image with this certificate's key, or `image` cannot hold
/// it.
pub fn sign(image: &mut Vec<u8>, certificate: &Certificate, signature: &[u8]) -> Result<(), Error> {
    let signed = signed_data(&digest(image)?, certificate, signature)?;
    pe::attach(image, &signed).map_err(Error::Image)
}

/// Returns an entry of the certificate table: a signature of the bytes of [`to_be_signed`] for this
/// digest.
///
/// # Errors
/// The signature was not made for this digest with this certificate's key.
pub fn signed_data(
    digest: &Digest,
    certificate: &Certificate,
    signature: &[u8],
) -> Result<Vec<u8>, Error> {
    if !certificate.verifies(&to_be_signed(digest), signature) {
        return Err(Error::OtherKey(certificate.name()));
    }
    let content = content(digest).map_err(Error::SignedData)?;
    let signed = pkcs7::signed_data(
        &pkcs7::Content::Inside(SPC_INDIRECT_DATA_OBJID, content),
        certificate,
        signature,
    );
    signed.and_then(|signed| pkcs7::wrapped(&signed)).map_err(Error::SignedData)
}

/// `SpcIndirectDataContent`, which holds the digest.
fn content(digest: &Digest) -> der::Result<Any> {
    let content = SpcIndirectDataContent {
        data: SpcAttributeTypeAndOptionalValue {
            value_type: PE_IMAGE_DATA,
            value: Any::new(der::Tag::Sequence, OBSOLETE)?,
        },
        message_digest: DigestInfo {
            digest_algorithm: pkcs7::algorithm(ID_SHA_256),
            digest: OctetString::new(*digest)?,
        },
    };
    Any::encode_from(&content)
}
