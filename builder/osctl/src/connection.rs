//! The connection to a node: TLS 1.3, with the user's credentials and the node's fingerprint.

use crate::address::Address;
use crate::credentials::{Bearer, Credentials};
use crate::descriptions::File;
use crate::error::{Error, Result};
use crate::pin::Pin;
use hyper_util::rt::TokioIo;
use osbuild_abi::osd::{CERTIFICATE_NAME, TRY_METADATA};
use osbuild_cosi::resource::state_client::StateClient;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::node_client::NodeClient;
use osbuild_protocol::Fingerprint;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{AlertDescription, ClientConfig};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncBufReadExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{self, Endpoint};
use tonic::{Request, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// How long a node may take to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long one of a node's addresses may take while there are others.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// The name of HTTP/2 in TLS.
const HTTP2: &[u8] = b"h2";

/// The remedy if another program than `osd` listens.
const OTHER_PORT: &str = "another program listens there: is it the port of the node API, 50000?";

/// A channel to a node, which adds metadata to each call.
type Channel = InterceptedService<transport::Channel, Metadata>;

/// Adds the token of the user and the number of the try that calls are part of, if there are any.
#[derive(Clone)]
pub struct Metadata {
    bearer: Bearer,
    part_of: Arc<AtomicU64>,
}

impl Interceptor for Metadata {
    fn call(&mut self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        let mut request = self.bearer.call(request)?;
        let number = self.part_of.load(Ordering::Relaxed);
        if number != 0 {
            request.metadata_mut().insert(TRY_METADATA, number.into());
        }
        Ok(request)
    }
}

/// An open connection.
pub struct Connection {
    address: Address,
    credentials: Credentials,
    channel: Channel,
    /// The number of the try that calls are part of; zero without one.
    part_of: Arc<AtomicU64>,
    /// The fingerprint of the node.
    pub fingerprint: Fingerprint,
    /// The name by which the user has chosen the node.
    name: Option<String>,
}

impl Connection {
    /// Connects with these credentials. With a fingerprint, only the node that has it is accepted,
    /// and a token is shown to no other.
    pub async fn open(
        address: &Address,
        credentials: &Credentials,
        expected: Option<&Fingerprint>,
    ) -> Result<Connection> {
        if expected.is_none() && matches!(credentials, Credentials::TokenFile(_)) {
            return Err(Error::usage("a token is shown only to a node that is known")
                .cause("a false node could use it until it expires")
                .hint("give the fingerprint that its console shows with `--fingerprint`"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pin = Arc::new(Pin::new(expected.cloned(), provider.clone()));
        let (config, bearer) = configure(credentials, &pin, provider)?;
        let cannot = || Error::failed(format!("cannot connect to {address}"));
        let connect = async {
            let addresses = lookup_host((address.host.as_str(), address.port)).await?;
            let stream = reach(&addresses.collect::<Vec<_>>()).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(CERTIFICATE_NAME).map_err(std::io::Error::other)?;
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
            // In TLS 1.3 the client is done before the node has seen its certificate. The first
            // bytes of HTTP/2 are the node's, or else there is an alert.
            if stream.fill_buf().await?.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            Ok((stream, protocol))
        };
        let stream = match timeout(TIMEOUT, connect).await {
            Err(_) => return Err(cannot().cause(format!("nothing answers for {TIMEOUT:?}"))),
            Ok(Err(error)) => return Err(refused(expected, &pin, &error, cannot())),
            Ok(Ok((_, protocol))) if protocol.as_deref() != Some(HTTP2) => {
                return Err(cannot().cause("it speaks TLS, but not HTTP/2").hint(OTHER_PORT));
            }
            Ok(Ok((stream, _))) => stream,
        };
        let mut stream = Some(TokioIo::new(stream));
        let once = tower::service_fn(move |_| {
            let stream = stream.take().ok_or(std::io::ErrorKind::NotConnected);
            std::future::ready(stream.map_err(std::io::Error::from))
        });
        // The URL gives HTTP/2 an authority; nothing is looked up.
        let endpoint = Endpoint::from_static("http://osd")
            .http2_keep_alive_interval(TIMEOUT)
            .keep_alive_timeout(TIMEOUT);
        let channel = endpoint.connect_with_connector(once).await;
        let channel = channel.map_err(|error| cannot().caused_by(&error))?;
        let part_of = Arc::<AtomicU64>::default();
        let metadata = Metadata { bearer, part_of: part_of.clone() };
        let channel = InterceptedService::new(channel, metadata);
        let fingerprint = pin.seen().ok_or_else(cannot)?;
        let (address, credentials) = (address.clone(), credentials.clone());
        Ok(Connection { address, credentials, channel, part_of, fingerprint, name: None })
    }

    /// The same connection to a node that the user has chosen by this name, if it has one.
    pub fn named(self, name: Option<&str>) -> Connection {
        Connection { name: name.map(str::to_owned), ..self }
    }

    /// The arguments of a command that a hint names: they choose the same node.
    pub fn arguments(&self) -> String {
        arguments(self.name.as_deref())
    }

    /// Opens another connection to the same node, whose calls are part of the same try.
    pub async fn another(&self) -> Result<Connection> {
        let expected = Some(&self.fingerprint);
        let other = Connection::open(&self.address, &self.credentials, expected).await?;
        other.be_part_of(self.part_of.load(Ordering::Relaxed));
        Ok(other.named(self.name.as_deref()))
    }

    /// Makes later calls a part of the try with this number: the node refuses changes after its
    /// end. Nodes of older releases have no numbers, which is zero here.
    pub fn be_part_of(&self, number: u64) {
        self.part_of.store(number, Ordering::Relaxed);
    }

    /// The service of resources.
    pub fn state(&self) -> StateClient<Channel> {
        // An update has two resources of a mebibyte at most.
        StateClient::new(self.channel.clone()).max_decoding_message_size(4 << 20)
    }

    /// The service of the node as a whole.
    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    /// The service of logs and processes.
    pub fn inspect(&self) -> InspectClient<Channel> {
        InspectClient::new(self.channel.clone()).max_decoding_message_size(4 << 20)
    }

    /// The `.proto` file with this message, as the node has it.
    pub async fn file_of(&self, message: &str) -> Result<File> {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(message.to_owned())),
        };
        let mut client = ServerReflectionClient::new(self.channel.clone());
        let requests = futures_util::stream::iter([request]);
        let mut answers = client.server_reflection_info(requests).await?.into_inner();
        let answer = answers.message().await?.and_then(|answer| answer.message_response);
        match answer {
            Some(MessageResponse::FileDescriptorResponse(answer)) => {
                let file = answer.file_descriptor_proto.first().map(Vec::as_slice);
                File::read(file.unwrap_or_default())
            }
            _ => Err(Error::failed(format!("the node does not describe `{message}`"))),
        }
    }

    /// The service of changes and tries.
    pub fn configuration(&self) -> ConfigurationClient<Channel> {
        ConfigurationClient::new(self.channel.clone()).max_decoding_message_size(4 << 20)
    }
}

/// The arguments of a command that choose the node with this name. Without one, the command asks
/// the same node as this one.
pub fn arguments(name: Option<&str>) -> String {
    name.map(|name| format!(" -n {name}")).unwrap_or_default()
}

/// Connects to the first of these addresses that answers. Networks may drop all packets of one
/// protocol.
async fn reach(addresses: &[SocketAddr]) -> std::io::Result<TcpStream> {
    let Some((last, others)) = addresses.split_last() else {
        return Err(ErrorKind::AddrNotAvailable.into());
    };
    for address in others {
        if let Ok(Ok(stream)) = timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await {
            return Ok(stream);
        }
    }
    TcpStream::connect(last).await
}

/// Returns the configuration of TLS for these credentials, and the interceptor of each call.
fn configure(
    credentials: &Credentials,
    pin: &Arc<Pin>,
    provider: Arc<CryptoProvider>,
) -> Result<(ClientConfig, Bearer)> {
    let (identity, bearer) = credentials.read()?;
    let unusable = |error: rustls::Error| {
        let path = credentials.path().display();
        Error::usage(format!("cannot use `{path}`")).caused_by(&error)
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(pin.clone());
    let mut config = match identity {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).map_err(unusable)?,
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok((config, bearer))
}

/// The error of a handshake. Another fingerprint explains it better than TLS does.
fn refused(
    expected: Option<&Fingerprint>,
    pin: &Pin,
    error: &std::io::Error,
    cannot: Error,
) -> Error {
    if let (Some(expected), Some(found)) = (expected, pin.seen())
        && *expected != found
    {
        return Error::mismatch("this is another node, or somebody in between")
            .cause(format!("its fingerprint is {found}, and {expected} is trusted"))
            .hint(
                "if its disk was reset, compare the fingerprint with its console, and add it \
                     again: osctl node remove NAME",
            );
    }
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner.and_then(remedy) {
        Some((cause, hint)) => cannot.cause(cause).caused_by(error).hint(hint),
        None if error.kind() == ErrorKind::UnexpectedEof => cannot
            .cause("it closes the connection")
            .hint("another program listens there, or the node has too many connections: try again"),
        None => cannot.caused_by(error),
    }
}

/// The cause of a TLS failure in the user's terms, and a hint; `None` if the failure has no known
/// remedy.
fn remedy(error: &rustls::Error) -> Option<(&'static str, &'static str)> {
    let issue = "cargo osbuild keys issue NAME USER --role ROLE";
    let clock = "compare the clock of the node with the time of the certificate; for a new one: \
                 cargo osbuild keys issue NAME USER --role ROLE";
    Some(match error {
        rustls::Error::InvalidMessage(_) => ("it does not speak TLS", OTHER_PORT),
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            ("it speaks TLS, but not HTTP/2", OTHER_PORT)
        }
        rustls::Error::AlertReceived(
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
        )
        | rustls::Error::PeerIncompatible(_) => ("it does not speak TLS 1.3", OTHER_PORT),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => (
            "it takes no tokens, only certificates",
            "an admin says whose tokens count: osctl explain tokenissuers",
        ),
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
            ("your certificate has expired, or is not valid yet by the clock of the node", clock)
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRevoked) => {
            ("your certificate is revoked", "an admin sees why: `osctl get revocations`")
        }
        rustls::Error::AlertReceived(AlertDescription::UnsupportedCertificate) => {
            ("your certificate is not one for clients", issue)
        }
        rustls::Error::AlertReceived(AlertDescription::AccessDenied) => {
            ("your certificate names no role that the node has", issue)
        }
        rustls::Error::AlertReceived(_) => (
            "the node does not accept your certificate",
            "the CA of your certificate must be one that `[api]` of the node's recipe or document \
             names",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    /// A certificate that has signed itself, and its key, as PEM and DER.
    struct Identity(rcgen::CertifiedKey<rcgen::KeyPair>);

    impl Identity {
        fn new(purpose: rcgen::ExtendedKeyUsagePurpose) -> Identity {
            Identity::valid_from(purpose, 2000)
        }

        fn valid_from(purpose: rcgen::ExtendedKeyUsagePurpose, year: i32) -> Identity {
            let mut params = rcgen::CertificateParams::new(["osd".to_owned()]).unwrap();
            params.not_before = rcgen::date_time_ymd(year, 1, 1);
            params.extended_key_usages = vec![purpose];
            let signing_key = rcgen::KeyPair::generate().unwrap();
            let cert = params.self_signed(&signing_key).unwrap();
            Identity(rcgen::CertifiedKey { cert, signing_key })
        }

        fn server(&self, protocols: &[&[u8]], trusted: &Identity) -> TlsAcceptor {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut roots = RootCertStore::empty();
            roots.add(trusted.0.cert.der().clone()).unwrap();
            let clients =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            let key = PrivatePkcs8KeyDer::from(self.0.signing_key.serialize_der());
            let mut config = ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(&[&TLS13])
                .unwrap()
                .with_client_cert_verifier(clients.build().unwrap())
                .with_single_cert(vec![self.0.cert.der().clone()], key.into())
                .unwrap();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            TlsAcceptor::from(Arc::new(config))
        }
    }

    /// The error of a client that meets this server: one with TLS, or one that sends a text.
    async fn error(client: &Identity, server: std::result::Result<TlsAcceptor, &str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("client.pem");
        let pem = client.0.cert.pem() + &client.0.signing_key.serialize_pem();
        std::fs::write(&file, pem).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let serve = async {
            let mut stream = listener.accept().await.unwrap().0;
            match server {
                Err(text) => {
                    stream.write_all(text.as_bytes()).await.unwrap();
                    stream.shutdown().await.unwrap();
                    // Unread bytes would reset the connection before the client has the text.
                    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                }
                Ok(acceptor) => {
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        stream.write_all(b"hello").await.unwrap();
                        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                    }
                }
            }
        };
        let credentials = Credentials::Certificate(file);
        let open = Connection::open(&address, &credentials, None);
        let (opened, ()) = tokio::join!(open, serve);
        opened.err().unwrap().to_string()
    }

    #[tokio::test]
    async fn a_port_of_another_program_is_named() {
        let client = Identity::new(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let server = Identity::new(rcgen::ExtendedKeyUsagePurpose::ServerAuth);
        for (other, cause) in [
            (Err("SSH-2.0-OpenSSH_10.0\r\n"), "it does not speak TLS"),
            (Ok(server.server(&[], &client)), "it speaks TLS, but not HTTP/2"),
            (Ok(server.server(&[b"http/1.1"], &client)), "it speaks TLS, but not HTTP/2"),
            (Err(""), "it closes the connection"),
        ] {
            let error = error(&client, other).await;
            assert!(error.contains(cause) && error.contains("hint: "), "{error}");
        }
    }

    #[tokio::test]
    async fn a_certificate_that_the_node_refuses_has_a_reason() {
        let client = Identity::new(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let server = Identity::new(rcgen::ExtendedKeyUsagePurpose::ServerAuth);
        let trusts_itself = server.server(&[HTTP2], &server);
        let wrong_purpose = error(&server, Ok(trusts_itself.clone())).await;
        assert!(wrong_purpose.contains("your certificate is not one for clients"));
        let unknown = error(&client, Ok(trusts_itself)).await;
        assert!(unknown.contains("the CA of your certificate must be one"), "{unknown}");
        let early = Identity::valid_from(rcgen::ExtendedKeyUsagePurpose::ClientAuth, 4000);
        let early = error(&early, Ok(server.server(&[HTTP2], &early))).await;
        assert!(early.contains("or is not valid yet") && early.contains("the clock"), "{early}");
    }
}
