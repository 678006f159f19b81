//! The reader: the signer of a signature that is not verified yet.

use crate::certificate::Certificate;
use crate::error::Error;
use crate::nesting;
use cms::cert::{CertificateChoices, IssuerAndSerialNumber};
use cms::content_info::ContentInfo;
use cms::signed_data::{SignedAttributes, SignedData, SignerIdentifier, SignerInfo};
use const_oid::db::rfc5911::ID_SIGNED_DATA;
use const_oid::db::rfc5912::{ID_SHA_256, RSA_ENCRYPTION, SHA_256_WITH_RSA_ENCRYPTION};
use der::asn1::ObjectIdentifier;
use der::{Any, Decode, Encode, Reader, SliceReader};

/// The one signer of a `SignedData`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signer {
    /// The signer's certificate, if the signature includes it.
    pub certificate: Option<Certificate>,
    /// The signed attributes; none if the content itself is signed.
    attributes: Option<SignedAttributes>,
    /// The issuer and the serial number of the certificate.
    identity: IssuerAndSerialNumber,
    signature: Vec<u8>,
}

impl Signer {
    /// Reads a `ContentInfo` with a `SignedData` of one signer, RSA and SHA-256.
    pub fn read(bytes: &[u8]) -> Result<(SignedData, Self), Error> {
        let signed = signed_data(bytes)?;
        let [signer] = signed.signer_infos.0.as_slice() else {
            return Err(Error::Unsupported("no signer or several"));
        };
        let signer = Self::of(&signed, signer)?;
        Ok((signed, signer))
    }

    fn of(signed: &SignedData, signer: &SignerInfo) -> Result<Self, Error> {
        let algorithm = (signer.digest_alg.oid, signer.signature_algorithm.oid);
        if ![(ID_SHA_256, RSA_ENCRYPTION), (ID_SHA_256, SHA_256_WITH_RSA_ENCRYPTION)]
            .contains(&algorithm)
        {
            return Err(Error::Unsupported("another algorithm than RSA with SHA-256"));
        }
        let SignerIdentifier::IssuerAndSerialNumber(identity) = &signer.sid else {
            return Err(Error::Unsupported(
                "a signer that is not named by issuer and serial number",
            ));
        };
        let certificates =
            signed.certificates.iter().flat_map(|certificates| certificates.0.iter());
        let certificate = certificates.into_iter().find_map(|certificate| match certificate {
            CertificateChoices::Certificate(one) => {
                is_of(one, identity).then(|| Certificate::checked(one.clone()).ok()).flatten()
            }
            CertificateChoices::Other(_) => None,
        });
        Ok(Signer {
            certificate,
            attributes: signer.signed_attrs.clone(),
            identity: identity.clone(),
            signature: signer.signature.as_bytes().to_vec(),
        })
    }

    /// The name of the signer.
    pub fn name(&self) -> String {
        self.certificate
            .as_ref()
            .map_or_else(|| self.identity.issuer.to_string(), Certificate::name)
    }

    /// Whether the signer identifies itself as that of `certificate`.
    pub fn names(&self, certificate: &Certificate) -> bool {
        is_of(&certificate.inner, &self.identity)
    }

    /// Whether the key of `certificate` signed the attributes, or, without attributes, `content`.
    pub fn is(&self, certificate: &Certificate, content: &[u8]) -> bool {
        let attributes = self.attributes.as_ref().map(Encode::to_der).transpose();
        let Ok(attributes) = attributes else { return false };
        self.names(certificate)
            && certificate.verifies(attributes.as_deref().unwrap_or(content), &self.signature)
    }

    /// Whether the signature covers the content itself.
    pub fn signed_content(&self) -> bool {
        self.attributes.is_none()
    }

    /// The value of the signed attribute of this type, which must be unique.
    pub fn attribute(&self, kind: ObjectIdentifier) -> Result<&Any, Error> {
        let attributes = self.attributes.iter().flat_map(|attributes| attributes.iter());
        let mut attributes = attributes.filter(|one| one.oid == kind);
        match (attributes.next().map(|attribute| attribute.values.as_slice()), attributes.next()) {
            (Some([value]), None) => Ok(value),
            _ => Err(Error::Unsupported("signed attributes that are missing or there twice")),
        }
    }
}

fn is_of(certificate: &x509_cert::Certificate, identity: &IssuerAndSerialNumber) -> bool {
    let subject = &certificate.tbs_certificate;
    (&subject.issuer, &subject.serial_number) == (&identity.issuer, &identity.serial_number)
}

/// Reads a `ContentInfo` with a `SignedData`, followed by at most 7 zeros.
fn signed_data(bytes: &[u8]) -> Result<SignedData, Error> {
    let parse = || {
        nesting::check(bytes)?;
        let mut reader = SliceReader::new(bytes)?;
        let content = ContentInfo::decode(&mut reader)?;
        let rest = reader.read_slice(reader.remaining_len())?;
        Ok((content, rest.len() < 8 && rest.iter().all(|byte| *byte == 0)))
    };
    let (content, only_padded) = parse().map_err(Error::SignedData)?;
    if content.content_type != ID_SIGNED_DATA || !only_padded {
        return Err(Error::Unsupported("no `SignedData`"));
    }
    content.content.decode_as().map_err(Error::SignedData)
}
