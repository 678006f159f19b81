//! The reader: who signed an image, and whether it is what they signed.

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

/// One signature of an image. What it says is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The digest that the image had when it was signed.
    pub digest: Digest,
    signer: Signer,
}

impl Signature {
    /// The signer's name.
    pub fn name(&self) -> String {
        self.signer.name()
    }

    /// The signer's certificate, if it came with the signature.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.signer.certificate.as_ref()
    }

    /// Whether the key of `certificate` signed what this signature says.
    pub fn is_by(&self, certificate: &Certificate) -> bool {
        // The attributes are there: the digest was found by them.
        self.signer.is(certificate, &[])
    }
}

/// An image that somebody trusted has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    /// By whom it is.
    pub by: &'a Certificate,
    /// The digest of the image, which takes as long to compute as the image is large.
    pub digest: Digest,
}

/// The signatures of `image`, in their order; none for an unsigned one.
///
/// # Errors
/// One cannot be read, or is of a kind that UEFI does not verify.
pub fn signatures(image: &[u8]) -> Result<Vec<Signature>, Error> {
    pe::certificates(image).map_err(Error::Image)?.into_iter().map(read).collect()
}

/// Whether `image` is what one of these certificates' keys signed, and which one that is. Like the
/// firmware it takes one good signature among several, and it does not look at dates.
///
/// # Errors
/// It is not, or it is not signed at all.
pub fn verify<'a>(image: &[u8], trusted: &'a [Certificate]) -> Result<Verified<'a>, Error> {
    verify_hashed(image, Hasher::default(), trusted)
}

/// The same for an image that was given to `hasher` as it came.
///
/// # Errors
/// As [`verify`]'s.
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

/// The image's digest from the signature's content, once that is found to be what the signed
/// attributes say.
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
