//! TLS with a server whose certificate is checked, and shown to the client (RFC 8446).

use super::steps::Failed;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The only protocol within.
const HTTP_1: &[u8] = b"http/1.1";

/// Whether a server needs a certificate that can be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It does.
    Verified,
    /// Any will do; the client learns whether it could be verified.
    Any,
}

/// A connection, and what is to be known of its certificate.
pub type Secured = (TlsStream<TcpStream>, String);

/// Opens TLS to the server with this name, whose certificate one of the authorities has to have
/// signed.
pub async fn open(
    stream: TcpStream,
    host: &str,
    authorities: &[PathBuf],
    demand: Demand,
) -> Result<Secured, Failed> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Failed::new(format!("`{host}` is not a name for TLS"), ""))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let checker = Arc::new(Checker::new(authorities, demand, provider.clone()));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failed::new(error.to_string(), ""))?;
    let mut config =
        config.dangerous().with_custom_certificate_verifier(checker.clone()).with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = connected.map_err(|error| checker.failed(&error))?;
    let version = match stream.get_ref().1.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
        _ => "TLS 1.2",
    };
    let words = format!("{version}, {}", checker.words());
    Ok((stream, words))
}

/// A certificate, and whether it was verified.
type Seen = (Vec<u8>, Result<(), Error>);

/// Verifies certificates, and remembers the last one.
#[derive(Debug)]
struct Checker {
    /// None if the node trusts nobody.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    /// The files that could be read.
    authorities: Vec<PathBuf>,
    /// How many there are.
    count: usize,
    demand: Demand,
    seen: Mutex<Option<Seen>>,
}

impl Checker {
    fn new(authorities: &[PathBuf], demand: Demand, provider: Arc<CryptoProvider>) -> Checker {
        let mut roots = RootCertStore::empty();
        let mut read = Vec::new();
        for file in authorities {
            let Ok(certificates) = CertificateDer::pem_file_iter(file) else { continue };
            read.push(file.clone());
            roots.add_parsable_certificates(certificates.flatten());
        }
        let count = roots.len();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let authorities = if read.is_empty() { authorities.to_owned() } else { read };
        let verifier = verifier.ok();
        Checker { verifier, provider, authorities, count, demand, seen: Mutex::default() }
    }

    fn trusted(&self) -> String {
        let files: Vec<String> =
            self.authorities.iter().map(|file| file.display().to_string()).collect();
        format!("the {} authorities in {}", self.count, files.join(" and "))
    }

    fn seen(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whose the last certificate is, and whether it was verified.
    fn words(&self) -> String {
        let Some((der, verified)) = self.seen() else { return "no certificate".to_owned() };
        let verified = match verified {
            Ok(()) => format!("verified with {}", self.trusted()),
            Err(error) => format!("NOT verified: {}", self.failure_of(&error, &der).error),
        };
        format!("certificate {}, {verified}", shown(&der))
    }

    /// Why a handshake has failed.
    fn failed(&self, error: &io::Error) -> Failed {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match (inner, self.seen()) {
            (Some(Error::InvalidCertificate(_)), Some((der, Err(why)))) => {
                self.failure_of(&why, &der)
            }
            (Some(Error::InvalidMessage(_)), _) => {
                Failed::new("it does not speak TLS", "another program listens there, or it is http")
            }
            (Some(Error::AlertReceived(alert)), _) => Failed::new(
                format!("the server refuses the handshake: {alert:?}"),
                "it wants a certificate of its clients, does not know the name, or has no version \
                 or cipher in common",
            ),
            (Some(Error::PeerIncompatible(_)), _) => {
                Failed::new("it speaks neither TLS 1.2 nor 1.3 with these ciphers", "")
            }
            _ if error.kind() == io::ErrorKind::UnexpectedEof => Failed::new(
                "it closes the connection",
                "a proxy or load balancer without a server behind it, or no TLS at this port",
            ),
            _ => Failed::new(error.to_string(), ""),
        }
    }

    /// Why a certificate is not accepted.
    fn failure_of(&self, error: &Error, der: &[u8]) -> Failed {
        let what = format!("certificate {}", shown(der));
        let Error::InvalidCertificate(error) = error else {
            return Failed::new(error.to_string(), what);
        };
        match error {
            CertificateError::UnknownIssuer => Failed::new(
                "the certificate's issuer is not trusted",
                format!("{what} is signed by none of {}", self.trusted()),
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Failed::new(
                "the certificate has expired",
                format!("{what}; or the node's clock is fast"),
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Failed::new(
                    "the certificate is not valid yet",
                    format!("the node's clock is slow, or the certificate is new: {what}"),
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Failed::new("the certificate is for another name", format!("{what}; {error}"))
            }
            _ => Failed::new(format!("the certificate is invalid: {error}"), what),
        }
    }
}

/// A certificate for people.
fn shown(der: &[u8]) -> String {
    match Certificate::from_der(der) {
        Ok(Certificate { tbs_certificate: of, .. }) => format!(
            "`{}` by `{}`, valid from {} to {}",
            of.subject, of.issuer, of.validity.not_before, of.validity.not_after
        ),
        Err(_) => "that is malformed".to_owned(),
    }
}

impl ServerCertVerifier for Checker {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = match &self.verifier {
            Some(verifier) => {
                verifier.verify_server_cert(certificate, intermediates, name, ocsp, now).map(drop)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        let seen = (certificate.to_vec(), verified.clone());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        match (verified, self.demand) {
            (Err(error), Demand::Verified) => Err(error),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
