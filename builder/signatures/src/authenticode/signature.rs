//! The reader: who signed an image, and whether it is what they signed.

use super::{Digest, Error, digest};
use crate::certificate::Certificate;
use ::authenticode::{SPC_INDIRECT_DATA_OBJID, SpcIndirectDataContent};
use cms::cert::{CertificateChoices, IssuerAndSerialNumber};
use cms::content_info::ContentInfo;
use cms::signed_data::{SignedData, SignerIdentifier, SignerInfo};
use const_oid::db::rfc5911::{ID_CONTENT_TYPE, ID_MESSAGE_DIGEST, ID_SIGNED_DATA};
use const_oid::db::rfc5912::{ID_SHA_256, RSA_ENCRYPTION, SHA_256_WITH_RSA_ENCRYPTION};
use der::asn1::{ObjectIdentifier, OctetStringRef};
use der::{Any, Decode, Encode, Reader, SliceReader};
use osbuild_formats::pe;
use sha2::{Digest as _, Sha256};

/// One signature of an image. What it says is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The digest that the image had when it was signed.
    pub digest: Digest,
    /// The signer's certificate, if it came with the signature.
    pub certificate: Option<Certificate>,
    /// Who signed: the issuer and the serial number of the certificate.
    signer: IssuerAndSerialNumber,
    /// What the signature is of.
    attributes: Vec<u8>,
    signature: Vec<u8>,
}

impl Signature {
    /// The signer's name.
    pub fn name(&self) -> String {
        self.certificate.as_ref().map_or_else(|| self.signer.issuer.to_string(), Certificate::name)
    }

    /// Whether the key of `certificate` signed what this signature says.
    pub fn is_by(&self, certificate: &Certificate) -> bool {
        let subject = &certificate.inner.tbs_certificate;
        (&subject.issuer, &subject.serial_number) == (&self.signer.issuer, &self.signer.serial_number)
            && certificate.verifies(&self.attributes, &self.signature)
    }
}

/// The signatures of `image`, in their order; none for an unsigned one.
///
/// # Errors
/// One cannot be read, or is of a kind that UEFI does not verify.
pub fn signatures(image: &[u8]) -> Result<Vec<Signature>, Error> {
    pe::certificates(image).map_err(Error::Image)?.into_iter().map(read).collect()
}

/// Whether `image` is what one of these certificates' keys signed, and which one that is. Like the firmware it takes one good signature among
/// several, and it does not look at dates.
///
/// # Errors
/// It is not, or it is not signed at all.
pub fn verify<'a>(image: &[u8], trusted: &'a [Certificate]) -> Result<&'a Certificate, Error> {
    let signatures = signatures(image)?;
    if signatures.is_empty() {
        return Err(Error::Unsigned);
    }
    let digest = digest(image)?;
    let by = |signature: &Signature| trusted.iter().find(|certificate| signature.is_by(certificate));
    let mut found = signatures.iter().filter_map(|signature| Some((signature, by(signature)?))).peekable();
    if found.peek().is_none() {
        return Err(Error::NotTrusted(signatures.iter().map(Signature::name).collect()));
    }
    found.find(|(signature, _)| signature.digest == digest).map(|(_, certificate)| certificate).ok_or(Error::Digest)
}

fn read(bytes: &[u8]) -> Result<Signature, Error> {
    let signed = signed_data(bytes)?;
    let [signer] = signed.signer_infos.0.as_slice() else { return Err(Error::Unsupported("another number of signers than one")) };
    let SignerIdentifier::IssuerAndSerialNumber(name) = &signer.sid else {
        return Err(Error::Unsupported("a signer that is not named by issuer and serial number"));
    };
    let certificates = signed.certificates.iter().flat_map(|certificates| certificates.0.iter());
    let certificate = certificates.into_iter().find_map(|certificate| match certificate {
        CertificateChoices::Certificate(one) => (is_named(one, name)).then(|| Certificate::checked(one.clone()).ok())?,
        CertificateChoices::Other(_) => None,
    });
    Ok(Signature {
        digest: indirect_digest(&signed, signer)?,
        certificate,
        signer: name.clone(),
        attributes: signer.signed_attrs.to_der().map_err(Error::SignedData)?,
        signature: signer.signature.as_bytes().to_vec(),
    })
}

fn is_named(certificate: &x509_cert::Certificate, name: &IssuerAndSerialNumber) -> bool {
    let subject = &certificate.tbs_certificate;
    (&subject.issuer, &subject.serial_number) == (&name.issuer, &name.serial_number)
}

/// A `ContentInfo` with a `SignedData`, and at most 7 zeros behind it.
fn signed_data(bytes: &[u8]) -> Result<SignedData, Error> {
    let parse = || {
        let mut reader = SliceReader::new(bytes)?;
        let content = ContentInfo::decode(&mut reader)?;
        let rest = reader.read_slice(reader.remaining_len())?;
        Ok((content, rest.len() < 8 && rest.iter().all(|byte| *byte == 0)))
    };
    let (content, only_padded) = parse().map_err(Error::SignedData)?;
    if content.content_type != ID_SIGNED_DATA || !only_padded {
        return Err(Error::Unsupported("something else than a `SignedData`"));
    }
    content.content.decode_as().map_err(Error::SignedData)
}

/// The image's digest from the signature's content, once that is found to be what the signed attributes say.
fn indirect_digest(signed: &SignedData, signer: &SignerInfo) -> Result<Digest, Error> {
    let algorithm = (signer.digest_alg.oid, signer.signature_algorithm.oid);
    if ![(ID_SHA_256, RSA_ENCRYPTION), (ID_SHA_256, SHA_256_WITH_RSA_ENCRYPTION)].contains(&algorithm) {
        return Err(Error::Unsupported("another algorithm than RSA with SHA-256"));
    }
    let inside = &signed.encap_content_info;
    let content = inside.econtent.as_ref().filter(|_| inside.econtent_type == SPC_INDIRECT_DATA_OBJID);
    let content = content.ok_or(Error::Unsupported("no digest of an image in it"))?;
    let kind = attribute(signer, ID_CONTENT_TYPE)?.decode_as::<ObjectIdentifier>().map_err(Error::SignedData)?;
    let digest = attribute(signer, ID_MESSAGE_DIGEST)?;
    let digest = digest.decode_as::<OctetStringRef>().map_err(Error::SignedData)?;
    if kind != SPC_INDIRECT_DATA_OBJID || digest.as_bytes() != Sha256::digest(content.value()).as_slice() {
        return Err(Error::Unsupported("attributes that do not belong to its content"));
    }
    let content: SpcIndirectDataContent = content.decode_as().map_err(Error::SignedData)?;
    let digest = &content.message_digest;
    match digest.digest.as_bytes().try_into() {
        Ok(bytes) if digest.digest_algorithm.oid == ID_SHA_256 => Ok(bytes),
        _ => Err(Error::Unsupported("another digest than SHA-256")),
    }
}

/// The value of the signed attribute of this kind, of which there is one.
fn attribute(signer: &SignerInfo, kind: ObjectIdentifier) -> Result<&Any, Error> {
    let mut attributes = signer.signed_attrs.iter().flat_map(|attributes| attributes.iter()).filter(|one| one.oid == kind);
    match (attributes.next().map(|attribute| attribute.values.as_slice()), attributes.next()) {
        (Some([value]), None) => Ok(value),
        _ => Err(Error::Unsupported("signed attributes that are missing or there twice")),
    }
}
