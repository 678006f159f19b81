//! The reader: the signers of an image, and whether the image is the signed one.

use super::{Digest, Hasher};
use crate::certificate::Certificate;
use crate::error::Error;
use crate::pkcs7::Signer;
use ::authenticode::{SPC_INDIRECT_DATA_OBJID, SpcIndirectDataContent};
use cms::signed_data::SignedData;
use const_oid::db::rfc5911::{ID_CONTENT_TYPE, ID_MESSAGE_DIGEST};
use const_oid::db::rfc5912::ID_SHA_256;
use der::asn1::{ObjectIdentifier, OctetStringRef};
use osbuild_formats::pe;
use sha2::{Digest as _, Sha256};

/// One signature of an image, not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The digest of the image at the time of signing.
    pub digest: Digest,
    signer: Signer,
}

impl Signature {
    /// The name of the signer.
    pub fn name(&self) -> String {
        self.signer.name()
    }

    /// The certificate of the signer, if the signature includes it.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.signer.certificate.as_ref()
    }

    /// Whether the key of `certificate` made this signature.
    pub fn is_by(&self, certificate: &Certificate) -> bool {
        // The attributes exist: the digest was found through them.
        self.signer.is(certificate, &[])
    }
}

/// An image with the signature of a trusted certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    /// The certificate of the signer.
    pub by: &'a Certificate,
    /// The digest of the image. Computing it takes time in proportion to the image's size.
    pub digest: Digest,
}

/// Returns the signatures of `image` in order; none if it is unsigned.
///
/// # Errors
/// A signature cannot be read, or is of a kind that UEFI does not verify.
pub fn signatures(image: &[u8]) -> Result<Vec<Signature>, Error> {
    pe::certificates(image).map_err(Error::Image)?.into_iter().map(read).collect()
}

/// Verifies that a key of one of these certificates signed `image`, and returns that certificate.
/// Like the firmware, this accepts one valid signature among several, and ignores dates.
///
/// # Errors
/// No signature is valid and trusted, or the image is unsigned.
pub fn verify<'a>(image: &[u8], trusted: &'a [Certificate]) -> Result<Verified<'a>, Error> {
    verify_hashed(image, Hasher::default(), trusted)
}

/// Does the same for an image that was passed to `hasher` as it arrived.
///
/// # Errors
/// Those of [`verify`].
pub fn verify_hashed<'a>(
    image: &[u8],
    hasher: Hasher,
    trusted: &'a [Certificate],
) -> Result<Verified<'a>, Error> {
    let signatures = signatures(image)?;
    if signatures.is_empty() {
        return Err(Error::Unsigned);
    }
    let digest = hasher.finish(image)?;
    let by =
        |signature: &Signature| trusted.iter().find(|certificate| signature.is_by(certificate));
    let mut found =
        signatures.iter().filter_map(|signature| Some((signature, by(signature)?))).peekable();
    if found.peek().is_none() {
        return Err(Error::NotTrusted(signatures.iter().map(Signature::name).collect()));
    }
    found
        .find(|(signature, _)| signature.digest == digest)
        .map(|(_, by)| Verified { by, digest })
        .ok_or(Error::Digest)
}

fn read(bytes: &[u8]) -> Result<Signature, Error> {
    let (signed, signer) = Signer::read(bytes)?;
    Ok(Signature { digest: indirect_digest(&signed, &signer)?, signer })
}

/// Returns the image's digest from the signature's content, after checking that the signed
/// attributes match the content.
fn indirect_digest(signed: &SignedData, signer: &Signer) -> Result<Digest, Error> {
    let inside = &signed.encap_content_info;
    let content =
        inside.econtent.as_ref().filter(|_| inside.econtent_type == SPC_INDIRECT_DATA_OBJID);
    let content = content.ok_or(Error::Unsupported("no digest of an image in it"))?;
    let kind = signer
        .attribute(ID_CONTENT_TYPE)?
        .decode_as::<ObjectIdentifier>()
        .map_err(Error::SignedData)?;
    let digest = signer.attribute(ID_MESSAGE_DIGEST)?;
    let digest = digest.decode_as::<OctetStringRef>().map_err(Error::SignedData)?;
    if kind != SPC_INDIRECT_DATA_OBJID
        || digest.as_bytes() != Sha256::digest(content.value()).as_slice()
    {
        return Err(Error::Unsupported("attributes that do not belong to its content"));
    }
    let content: SpcIndirectDataContent = content.decode_as().map_err(Error::SignedData)?;
    let digest = &content.message_digest;
    match digest.digest.as_bytes().try_into() {
        Ok(bytes) if digest.digest_algorithm.oid == ID_SHA_256 => Ok(bytes),
        _ => Err(Error::Unsupported("another digest than SHA-256")),
    }
}
