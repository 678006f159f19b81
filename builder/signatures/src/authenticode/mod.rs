//! Authenticode signatures of PE images (Microsoft's "Windows Authenticode Portable Executable
//! Signature Format"), as UEFI's Secure Boot verifies them: RSA PKCS#1 v1.5 with SHA-256.
//!
//! Whoever has the private key signs what [`to_be_signed`] gives; [`sign`] puts that signature into
//! the image. Here are no private keys.

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

/// SHA-256 of all that a signature covers.
pub type Digest = [u8; 32];

/// How much of an image is read at once.
const CHUNK: usize = 256 << 10;

/// `SPC_PE_IMAGE_DATAOBJ`
const PE_IMAGE_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.15");

/// `SpcPeImageData` as every signer writes it: no flags, and for the file the text `<<<Obsolete>>>`
/// in UTF-16.
const OBSOLETE: &[u8] =
    b"\x03\x01\x00\xA0\x20\xA2\x1E\x80\x1C\0<\0<\0<\0O\0b\0s\0o\0l\0e\0t\0e\0>\0>\0>";

/// The digest of an image. It is the same before and after the image was signed.
///
/// # Errors
/// `image` is no image, or not every byte of it stands in exactly one section.
pub fn digest(image: &[u8]) -> Result<Digest, Error> {
    let mut hasher = Sha256::new();
    let covered = pe::covered(image).map_err(Error::Image)?;
    let end = covered[2].end;
    covered.into_iter().for_each(|range| hasher.update(&image[range]));
    Ok(padded(hasher, end))
}

/// The same for an image with these headers and of `length` bytes that is read from its beginning.
///
/// # Errors
/// As [`digest`]'s, or it cannot be read to its end ([`Error::Read`]).
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

/// Ends the digest with what an unsigned image of `end` bytes is padded with before a signature
/// follows.
fn padded(mut hasher: Sha256, end: usize) -> Digest {
    hasher.update(&[0; 8][..end.next_multiple_of(8) - end]);
    hasher.finalize().into()
}

/// What has to be signed for an image of this digest: the DER of the signed attributes. The
/// signature is one of RSASSA-PKCS1-v1_5 with SHA-256.
pub fn to_be_signed(digest: &Digest) -> Vec<u8> {
    let attributes =
        content(digest).and_then(|content| pkcs7::attributes(SPC_INDIRECT_DATA_OBJID, &content));
    attributes.expect("a digest always has a DER form")
}

/// Adds the signature of what [`to_be_signed`] gives to `image`. Signatures that it has stay.
///
/// # Errors
/// The signature is none of this image by this certificate, or `image` cannot take it.
pub fn sign(image: &mut Vec<u8>, certificate: &Certificate, signature: &[u8]) -> Result<(), Error> {
    let signed = signed_data(&digest(image)?, certificate, signature)?;
    pe::attach(image, &signed).map_err(Error::Image)
}

/// The signature of what [`to_be_signed`] gives for this digest, as an image has it in its
/// certificate table.
///
/// # Errors
/// The signature is none of this digest by this certificate.
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
