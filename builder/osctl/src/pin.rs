//! The verifier that knows a node by the fingerprint of its certificate.

use osbuild_protocol::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};

/// Accepts the certificate with one fingerprint, or any if there is none to compare with, and
/// remembers what it has seen. The handshake proves that the node has the key.
#[derive(Debug)]
pub struct Pin {
    expected: Option<Fingerprint>,
    seen: Mutex<Option<Fingerprint>>,
    provider: Arc<CryptoProvider>,
}

impl Pin {
    /// Accepts this fingerprint alone, or any.
    pub fn new(expected: Option<Fingerprint>, provider: Arc<CryptoProvider>) -> Pin {
        Pin { expected, seen: Mutex::new(None), provider }
    }

    /// The fingerprint of the node that was connected to last.
    pub fn seen(&self) -> Option<Fingerprint> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Verified<T> = Result<T, rustls::Error>;

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Verified<ServerCertVerified> {
        let found = Fingerprint::of(&Sha256::digest(certificate).into());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        match self.expected.as_ref().is_none_or(|expected| *expected == found) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
