//! TLS 1.3 (RFC 8446), with certificates on both sides, unless a client may show tokens.

use super::caller::ShownCertificate;
use super::identity::Identity;
use super::rules::Rules;
use super::sys::clock_is_synchronized;
use osbuild_failure::{Explain, Failure, Outcome};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The protocol within: HTTP/2 (RFC 9113).
const HTTP_2: &[u8] = b"h2";

/// Returns an acceptor for clients with a certificate that a CA in `clients` (PEM) has signed, and,
/// while tokens count, for those without any certificate.
///
/// # Errors
/// `clients` has no certificate or a malformed one, or the node's certificate cannot be used.
pub fn acceptor(clients: &[u8], identity: &Identity, rules: Arc<Rules>) -> Outcome<TlsAcceptor> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(clients) {
        let certificate = certificate.explain("read the certificate of the clients' CA")?;
        roots.add(certificate).explain("read the certificate of the clients' CA")?;
    }
    if roots.is_empty() {
        return Err(Failure::new("the clients' CA has no certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let verifier = verifier.build().explain("trust the clients' CA")?;
    let Identity { certificate, key } = identity;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .explain("use TLS 1.3")?
        .with_client_cert_verifier(Arc::new(MayCall {
            verifier,
            rules,
            is_synchronized: clock_is_synchronized,
        }))
        .with_single_cert(vec![certificate.clone()], key.clone_key())
        .explain("use the node's certificate")?;
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    // A resumed session would outlast the client's certificate.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The error of a certificate that a CA has signed and that is excluded.
const REVOKED: Error = Error::InvalidCertificate(CertificateError::Revoked);

/// The error of a certificate that a CA has signed and that names no role. Its client gets the
/// alert `access_denied`.
const WITHOUT_ROLE: Error =
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);

/// Whether a handshake has failed because the client's certificate names no role.
pub fn is_without_role(error: &io::Error) -> bool {
    inner(error) == Some(&WITHOUT_ROLE)
}

/// Whether a handshake has failed because the client is excluded.
pub fn is_revoked(error: &io::Error) -> bool {
    inner(error) == Some(&REVOKED)
}

fn inner(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// A verifier that refuses excluded certificates and those without a role, which would hold a place
/// and may do nothing. It lets a certificate be used before its time while nobody has set the
/// clock: that of a node without a network may be decades behind, and the person who would mend it
/// has to connect first.
struct MayCall {
    verifier: Arc<dyn ClientCertVerifier>,
    rules: Arc<Rules>,
    /// Whether a server has set the clock.
    is_synchronized: fn() -> bool,
}

/// The trait wants it.
impl fmt::Debug for MayCall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verifier.fmt(out)
    }
}

impl ClientCertVerifier for MayCall {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    /// Asked at each handshake. A client without a certificate may do nothing before it has shown a
    /// token.
    fn client_auth_mandatory(&self) -> bool {
        !self.rules.accept_tokens()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = match self.verifier.verify_client_cert(certificate, intermediates, now) {
            Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
                not_before,
                ..
            })) if !(self.is_synchronized)() => {
                self.verifier.verify_client_cert(certificate, intermediates, not_before)
            }
            verified => verified,
        };
        let verified = verified?;
        let shown = ShownCertificate::of(certificate).map_err(|_| WITHOUT_ROLE)?;
        if self.rules.exclusion(&shown).is_some() {
            return Err(REVOKED);
        }
        self.rules.caller(shown).map(|_| verified).ok_or(WITHOUT_ROLE)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::SharedStore;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    /// A verifier of a CA, and a certificate of it for an admin, which begins in the year 4000.
    fn early(is_synchronized: fn() -> bool) -> (MayCall, CertificateDer<'static>) {
        let (key, of_client) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = authority.self_signed(&key).unwrap();
        let mut client = CertificateParams::default();
        client.distinguished_name.push(DnType::OrganizationName, "admin");
        client.distinguished_name.push(DnType::CommonName, "early");
        client.not_before = rcgen::date_time_ymd(4000, 1, 1);
        let issuer = Issuer::new(authority, key);
        let client = client.signed_by(&of_client, &issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(root.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        let store = Arc::new(SharedStore::new().unwrap());
        let rules = Arc::new(Rules::new(store, None));
        let verifier = verifier.build().unwrap();
        (MayCall { verifier, rules, is_synchronized }, client.der().clone())
    }

    #[test]
    fn a_certificate_counts_before_its_time_only_while_the_clock_may_be_wrong() {
        let verified = |is_synchronized| {
            let (verifier, certificate) = early(is_synchronized);
            verifier.verify_client_cert(&certificate, &[], UnixTime::now())
        };
        assert!(verified(|| false).is_ok());
        let refused = verified(|| true).unwrap_err();
        let is_early = matches!(
            refused,
            Error::InvalidCertificate(CertificateError::NotValidYetContext { .. })
        );
        assert!(is_early, "{refused:?}");
    }
}
