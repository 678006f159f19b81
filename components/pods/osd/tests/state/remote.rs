//! An `osd` that serves clients over TLS, and such clients.

use crate::osd::{ANY_TYPE, Client, NAMESPACE, Osd, TYPE};
use hyper_util::rt::TokioIo;
use osbuild_cosi::resource::{ListOptions, ListRequest};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

/// Where a program listens whose port the kernel chooses.
const LOOPBACK: &str = "127.0.0.1:0";

/// A listening `osd`, the CA of its clients, and its record.
pub struct RemoteOsd {
    pub osd: Osd,
    pub address: SocketAddr,
    authority: Issuer<'static, KeyPair>,
    record: Arc<Mutex<String>>,
}

/// A client's certificate and key.
#[derive(Clone)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Arc<KeyPair>,
}

impl Identity {
    /// The fingerprint of the certificate.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(&self.certificate);
        digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }
}

impl RemoteOsd {
    /// Starts the program with further arguments. Its record is read.
    pub fn start(arguments: &[&str]) -> RemoteOsd {
        RemoteOsd::start_at(LOOPBACK, arguments)
    }

    /// The same at another address and port.
    pub fn start_at(address: &str, arguments: &[&str]) -> RemoteOsd {
        let (mut remote, stdout) = RemoteOsd::start_unread_at(address, arguments);
        let record = remote.record.clone();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                *record.lock().unwrap() += &(line + "\n");
            }
        });
        assert!(remote.osd.process().try_wait().unwrap().is_none());
        remote
    }

    /// Starts the program, and returns what reads its record after the first line.
    pub fn start_unread(arguments: &[&str]) -> (RemoteOsd, BufReader<ChildStdout>) {
        RemoteOsd::start_unread_at(LOOPBACK, arguments)
    }

    fn start_unread_at(at: &str, arguments: &[&str]) -> (RemoteOsd, BufReader<ChildStdout>) {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let clients = folder.path().join("clients.crt");
        std::fs::write(&clients, params.self_signed(&key).unwrap().pem()).unwrap();
        let (child, address, stdout) = listen(folder.path(), at, arguments);
        let osd = Osd::of(folder, child);
        let record = Arc::default();
        (RemoteOsd { osd, address, authority: Issuer::new(params, key), record }, stdout)
    }

    /// Ends the program as a crash does, and starts another with the same CA. Its record is not
    /// read.
    pub fn restart(&mut self, arguments: &[&str]) {
        let process = self.osd.process();
        process.kill().unwrap();
        process.wait().unwrap();
        let socket = self.osd.socket();
        let (child, address, stdout) = listen(socket.parent().unwrap(), LOOPBACK, arguments);
        std::thread::spawn(move || stdout.lines().for_each(drop));
        *self.osd.process() = child;
        self.address = address;
    }

    /// A certificate of its CA that is good for a day.
    pub fn identity(&self, name: &str, role: &str) -> Identity {
        self.identity_until(name, role, SystemTime::now() + Duration::from_secs(86_400))
    }

    /// A certificate of its CA with a last second.
    pub fn identity_until(&self, name: &str, role: &str, end: SystemTime) -> Identity {
        let mut params = CertificateParams::default();
        params.not_after = end.into();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, role);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        Identity { certificate: certificate.der().clone(), key: Arc::new(key) }
    }

    /// Whether a client with this certificate gets a call through.
    pub async fn lets_in(&self, identity: &Identity) -> bool {
        let Ok(channel) = self.channel(identity).await else { return false };
        let options = Some(ListOptions::default());
        let (namespace, r#type) = (NAMESPACE.into(), TYPE.into());
        Client::new(channel).list(ListRequest { namespace, r#type, options }).await.is_ok()
    }

    /// A TLS connection, before the first byte of HTTP/2.
    pub async fn tls(&self, identity: &Identity) -> std::io::Result<TlsStream<TcpStream>> {
        self.tls_of(Some(identity)).await
    }

    /// The same, perhaps without a certificate.
    pub async fn tls_of(
        &self,
        identity: Option<&Identity>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyNode(provider)));
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                config.with_client_auth_cert(vec![certificate.clone()], key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("osd").unwrap();
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// A connection.
    pub async fn channel(&self, identity: &Identity) -> Result<Channel, tonic::transport::Error> {
        self.channel_of(Some(identity)).await
    }

    /// The same, perhaps without a certificate.
    pub async fn channel_of(
        &self,
        identity: Option<&Identity>,
    ) -> Result<Channel, tonic::transport::Error> {
        let mut stream = Some(TokioIo::new(self.tls_of(identity).await.unwrap()));
        let once = tower::service_fn(move |_| {
            let stream =
                stream.take().ok_or(std::io::Error::from(std::io::ErrorKind::NotConnected));
            std::future::ready(stream)
        });
        Endpoint::from_static("http://osd").connect_with_connector(once).await
    }

    /// A client of resources with a connection of its own.
    pub async fn state(&self, identity: &Identity) -> Client {
        Client::new(self.channel(identity).await.unwrap()).max_decoding_message_size(4 << 20)
    }

    /// A client of resources with a connection of its own and without a certificate.
    pub async fn stranger(&self) -> Client {
        Client::new(self.channel_of(None).await.unwrap())
    }

    /// The record as it is now.
    pub fn record(&self) -> String {
        self.record.lock().unwrap().clone()
    }

    /// Waits until the record has the text so many times, and returns it.
    pub async fn recorded(&self, text: &str, times: usize) -> String {
        for _ in 0..1000 {
            let record = self.record();
            if record.matches(text).count() >= times {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the record has not {times} times `{text}`: {}", self.record());
    }
}

/// Starts the program with its socket in the folder, which has the CA of its clients.
fn listen(
    folder: &Path,
    at: &str,
    arguments: &[&str],
) -> (Child, SocketAddr, BufReader<ChildStdout>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osd"));
    command.arg("--socket").arg(folder.join("socket")).arg(ANY_TYPE).args(arguments);
    command.args(["--listen", at, "--clients"]).arg(folder.join("clients.crt"));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    let address = first.split(' ').nth(2).unwrap().parse().unwrap();
    (child, address, stdout)
}

/// Accepts any node.
#[derive(Debug)]
struct AnyNode(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyNode {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("osd speaks TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
