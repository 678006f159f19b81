//! TLS 1.3, with certificates on both sides (RFC 8446).

use super::identity::Identity;
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
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The protocol within: HTTP/2 (RFC 9113).
const HTTP_2: &[u8] = b"h2";

/// Accepts clients with a certificate that a CA in the PEM file has signed. `None` means that there
/// is no such file.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub fn acceptor(clients: &Path, identity: Identity) -> Outcome<Option<TlsAcceptor>> {
    let pem = match fs::read(clients) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.explain(format_args!("read `{}`", clients.display()))?,
    };
    let config = config(&pem, identity).explain(format_args!("use `{}`", clients.display()))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn config(clients: &[u8], Identity { certificate, key }: Identity) -> Outcome<ServerConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(clients) {
        let certificate = certificate.explain("read a certificate")?;
        roots.add(certificate).explain("read a certificate")?;
    }
    if roots.is_empty() {
        return Err(Failure::new("it has no certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let verifier = verifier.build().explain("trust the clients' CA")?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .explain("use TLS 1.3")?
        .with_client_cert_verifier(Arc::new(AtAnyEarlyTime(verifier)))
        .with_single_cert(vec![certificate], key)
        .explain("use the node's certificate")?;
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    // A resumed session would outlast the client's certificate.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// A verifier that lets a certificate be used before its time: the clock of a node without a
/// network may be decades behind, and the person who would set it has to connect first.
#[derive(Debug)]
struct AtAnyEarlyTime(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AtAnyEarlyTime {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let begin = begin(certificate)?;
        let time = if begin.as_secs() > now.as_secs() { begin } else { now };
        self.0.verify_client_cert(certificate, intermediates, time)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// When the certificate's validity begins.
fn begin(certificate: &CertificateDer<'_>) -> Result<UnixTime, Error> {
    let parsed = Certificate::from_der(certificate);
    let parsed = parsed.map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let begin = parsed.tbs_certificate.validity.not_before.to_unix_duration();
    Ok(UnixTime::since_unix_epoch(begin))
}
