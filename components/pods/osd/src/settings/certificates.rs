//! Reads certificates, which `init` does not.

use osbuild_protocol::{Authorities, Refusal, RefusalCode};
use x509_cert::Certificate;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{self, Decode, Document};
use x509_cert::ext::pkix::BasicConstraints;

/// The certificates. `Certificate::from_pem` does not return if one ends too early, so the text is
/// decoded first.
///
/// # Errors
/// One of them is not X.509.
pub fn read(authorities: &Authorities) -> Result<Vec<Certificate>, der::Error> {
    let certificates = authorities.each_pem().map(|pem| {
        let (_, der) = Document::from_pem(&pem)?;
        Certificate::from_der(der.as_bytes())
    });
    certificates.collect()
}

/// Checks that the authorities in the field `field` are authorities.
///
/// # Errors
/// One of them is not X.509, or may not sign others.
pub fn check_authorities(field: &str, authorities: &Authorities) -> Result<(), Refusal> {
    let certificates = read(authorities).map_err(|error| {
        let reason = format!("`{field}` has no X.509 certificates: {error}");
        Refusal::new(RefusalCode::Malformed, reason)
    })?;
    match certificates.iter().find(|one| !is_authority(one)) {
        None => Ok(()),
        Some(other) => {
            let subject = subject(other);
            let reason = format!("`{subject}` is not the certificate of an authority");
            Err(Refusal::new(RefusalCode::Malformed, reason))
        }
    }
}

/// Whether a certificate may sign those of servers (RFC 5280, section 4.2.1.9). Programs ignore one
/// that may not.
fn is_authority(certificate: &Certificate) -> bool {
    let extensions = certificate.tbs_certificate.extensions.iter().flatten();
    let constraints = extensions.filter(|one| one.extn_id == BasicConstraints::OID);
    let mut constraints =
        constraints.filter_map(|one| BasicConstraints::from_der(one.extn_value.as_bytes()).ok());
    constraints.any(|constraints| constraints.ca)
}

/// Whose it is, in one line (RFC 4514).
pub fn subject(certificate: &Certificate) -> String {
    certificate.tbs_certificate.subject.to_string()
}
