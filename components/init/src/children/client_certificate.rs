//! The node's certificate from its cluster.

use osbuild_failure::{Explain, Failure, Outcome};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error, RootCertStore};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::{Time, Validity};

/// Whether one of the certificates in `authority` has signed the first one in `chain`. Both are
/// PEM. An expired certificate is the cluster's as well: the kubelet renews it.
///
/// # Errors
/// One of the two is malformed.
pub fn is_signed_by(chain: &str, authority: &str) -> Outcome<bool> {
    let provider = rustls::crypto::ring::default_provider();
    let roots = roots(authority)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.into())
        .build()
        .explain("read the certificate authority")?;
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .explain("read the certificate")?;
    let (first, others) =
        chain.split_first().ok_or_else(|| Failure::new("there is no certificate"))?;
    match verifier.verify_client_cert(first, others, begin(first)?) {
        Ok(_) => Ok(true),
        Err(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => Ok(false),
        Err(error) => Err(error).explain("verify the certificate"),
    }
}

/// The certificates in a PEM text, as those that are trusted.
pub fn roots(authority: &str) -> Outcome<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        let certificate = certificate.explain("read the certificate authority")?;
        roots.add(certificate).explain("read the certificate authority")?;
    }
    Ok(roots)
}

/// When the first certificate of a PEM text expires. It is printed in UTC.
pub fn end(chain: &str) -> Outcome<Time> {
    let first = CertificateDer::from_pem_slice(chain.as_bytes()).explain("read the certificate")?;
    Ok(validity(&first)?.not_after)
}

/// The first moment at which a certificate is valid. The clock may be wrong by years.
fn begin(certificate: &CertificateDer) -> Outcome<UnixTime> {
    Ok(UnixTime::since_unix_epoch(validity(certificate)?.not_before.to_unix_duration()))
}

fn validity(certificate: &CertificateDer) -> Outcome<Validity> {
    let certificate = Certificate::from_der(certificate).explain("decode the certificate")?;
    Ok(certificate.tbs_certificate.validity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        KeyPair, date_time_ymd,
    };

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A client's certificate that expired long ago.
    fn certificate(authority: &CertifiedIssuer<'static, KeyPair>) -> String {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = date_time_ymd(2001, 2, 3);
        params.not_after = date_time_ymd(2002, 3, 4);
        params.signed_by(&KeyPair::generate().unwrap(), authority).unwrap().pem()
    }

    #[test]
    fn a_certificate_is_its_clusters_even_if_it_has_expired() {
        let (own, other) = (authority(), authority());
        let chain = certificate(&own);
        assert_eq!(is_signed_by(&chain, &own.pem()), Ok(true));
        assert_eq!(is_signed_by(&chain, &other.pem()), Ok(false));
        assert_eq!(is_signed_by(&chain, &(other.pem() + &own.pem())), Ok(true));
    }

    #[test]
    fn malformed_certificates_are_errors() {
        let own = authority();
        for (chain, authority) in [("", own.pem()), ("no PEM", own.pem())] {
            assert!(is_signed_by(chain, &authority).is_err());
        }
        assert!(is_signed_by(&certificate(&own), "").is_err());
    }

    #[test]
    fn the_end_of_a_certificate_is_a_date() {
        assert_eq!(end(&certificate(&authority())).unwrap().to_string(), "2002-03-04T00:00:00Z");
    }
}
