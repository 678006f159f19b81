//! PKCS#7 signatures (RFC 2315) with one signer, RSA PKCS#1 v1.5 and SHA-256, as UEFI firmware
//! verifies them. They have no signing time, so the same key and content give the same bytes.

mod signer;

pub(crate) use signer::Signer;

use crate::certificate::Certificate;
use cms::cert::{CertificateChoices, IssuerAndSerialNumber};
use cms::content_info::{CmsVersion, ContentInfo};
use cms::signed_data::{
    EncapsulatedContentInfo, SignedAttributes, SignedData, SignerIdentifier, SignerInfo,
    SignerInfos,
};
use const_oid::db::rfc5911::{ID_CONTENT_TYPE, ID_DATA, ID_MESSAGE_DIGEST, ID_SIGNED_DATA};
use const_oid::db::rfc5912::{ID_SHA_256, RSA_ENCRYPTION};
use der::asn1::{ObjectIdentifier, OctetString, SetOfVec};
use der::{Any, AnyRef, Encode};
use sha2::{Digest, Sha256};
use x509_cert::attr::Attribute;
use x509_cert::spki::AlgorithmIdentifierOwned;

/// The content of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Content of this type inside the signature. The signature covers attributes with its digest.
    Inside(ObjectIdentifier, Any),
    /// Detached content. The signature covers it directly.
    Elsewhere,
}

/// Returns the DER of the signed attributes for content of a type, over which an RSA signature with
/// SHA-256 is made.
///
/// The digest covers the octets of the content without tag and length (RFC 2315, 9.3).
pub fn attributes(kind: ObjectIdentifier, content: &Any) -> der::Result<Vec<u8>> {
    signed_attributes(kind, content)?.to_der()
}

/// Returns a `SignedData` with this content, the signer's certificate and the signature.
pub fn signed_data(
    content: &Content,
    certificate: &Certificate,
    signature: &[u8],
) -> der::Result<SignedData> {
    let (encap_content_info, signed_attrs) = match content {
        Content::Inside(kind, content) => (
            EncapsulatedContentInfo { econtent_type: *kind, econtent: Some(content.clone()) },
            Some(signed_attributes(*kind, content)?),
        ),
        Content::Elsewhere => {
            (EncapsulatedContentInfo { econtent_type: ID_DATA, econtent: None }, None)
        }
    };
    let subject = &certificate.inner.tbs_certificate;
    let issued = IssuerAndSerialNumber {
        issuer: subject.issuer.clone(),
        serial_number: subject.serial_number.clone(),
    };
    let signer = SignerInfo {
        version: CmsVersion::V1,
        sid: SignerIdentifier::IssuerAndSerialNumber(issued),
        digest_alg: algorithm(ID_SHA_256),
        signed_attrs,
        signature_algorithm: algorithm(RSA_ENCRYPTION),
        signature: OctetString::new(signature)?,
        unsigned_attrs: None,
    };
    Ok(SignedData {
        version: CmsVersion::V1,
        digest_algorithms: SetOfVec::try_from(vec![algorithm(ID_SHA_256)])?,
        encap_content_info,
        certificates: Some(
            vec![CertificateChoices::Certificate(certificate.inner.clone())].try_into()?,
        ),
        crls: None,
        signer_infos: SignerInfos(SetOfVec::try_from(vec![signer])?),
    })
}

/// Returns the DER of a `ContentInfo` with `signed_data`.
pub fn wrapped(signed_data: &SignedData) -> der::Result<Vec<u8>> {
    ContentInfo { content_type: ID_SIGNED_DATA, content: Any::encode_from(signed_data)? }.to_der()
}

/// The identifier of SHA-256 or RSA, both of which have the parameter NULL.
pub(crate) fn algorithm(oid: ObjectIdentifier) -> AlgorithmIdentifierOwned {
    AlgorithmIdentifierOwned { oid, parameters: Some(AnyRef::NULL.into()) }
}

fn signed_attributes(kind: ObjectIdentifier, content: &Any) -> der::Result<SignedAttributes> {
    let attribute =
        |oid, value| der::Result::Ok(Attribute { oid, values: SetOfVec::try_from(vec![value])? });
    let digest = OctetString::new(Sha256::digest(content.value()).as_slice())?;
    let attributes = vec![
        attribute(ID_CONTENT_TYPE, Any::encode_from(&kind)?)?,
        attribute(ID_MESSAGE_DIGEST, Any::encode_from(&digest)?)?,
    ];
    SetOfVec::try_from(attributes)
}
