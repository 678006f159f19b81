//! The connection to a node: TLS 1.3, with the user's certificate and the node's fingerprint.

use crate::address::Address;
use crate::error::{Error, Result};
use crate::pin::Pin;
use hyper_util::rt::TokioIo;
use osbuild_cosi::resource::state_client::StateClient;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::node_client::NodeClient;
use osbuild_protocol::Fingerprint;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{AlertDescription, ClientConfig};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

/// How long a node may take to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The name in the node's certificate, which its fingerprint makes unimportant.
const NAME: &str = "osd";

/// An open connection.
pub struct Connection {
    channel: Channel,
    /// The fingerprint of the node.
    pub fingerprint: Fingerprint,
}

impl Connection {
    /// Connects with the certificate and key in the PEM file `identity`. With a fingerprint, only
    /// the node that has it is accepted.
    pub async fn open(
        address: &Address,
        identity: &Path,
        expected: Option<&Fingerprint>,
    ) -> Result<Connection> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pin = Arc::new(Pin::new(expected.cloned(), provider.clone()));
        let (chain, key) = read(identity)?;
        let unusable = |error: rustls::Error| {
            Error::usage(format!("cannot use `{}`", identity.display())).caused_by(&error)
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(pin.clone());
        let mut config = config.with_client_auth_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let cannot = || Error::failed(format!("cannot connect to {address}"));
        let connect = async {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(NAME).map_err(std::io::Error::other)?;
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
            // In TLS 1.3 the client is done before the node has seen its certificate. The first
            // bytes of HTTP/2 are the node's, or else there is an alert.
            match stream.fill_buf().await?.is_empty() {
                true => Err(ErrorKind::UnexpectedEof.into()),
                false => Ok(stream),
            }
        };
        let stream = match timeout(TIMEOUT, connect).await {
            Err(_) => return Err(cannot().cause(format!("nothing answers for {TIMEOUT:?}"))),
            Ok(Err(error)) => return Err(refused(expected, &pin, &error, cannot())),
            Ok(Ok(stream)) => stream,
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
        let fingerprint = pin.seen().ok_or_else(cannot)?;
        Ok(Connection { channel, fingerprint })
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

    /// The service of changes and tries.
    pub fn configuration(&self) -> ConfigurationClient<Channel> {
        ConfigurationClient::new(self.channel.clone()).max_decoding_message_size(4 << 20)
    }
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
    let hint = match inner {
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateExpired)) => {
            "your certificate has expired: cargo osbuild keys issue NAME USER --role ROLE"
        }
        Some(rustls::Error::AlertReceived(_)) => {
            "the CA of your certificate must be one that `[api]` of the node's recipe or document \
             names"
        }
        _ => return cannot.caused_by(error),
    };
    cannot.caused_by(error).hint(hint)
}

/// The certificate chain and the key in a PEM file.
fn read(path: &Path) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let cannot = || format!("cannot read `{}`", path.display());
    let pem = std::fs::read(path).map_err(|error| Error::usage(cannot()).caused_by(&error))?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<std::result::Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let key = PrivateKeyDer::from_pem_slice(&pem).ok();
    match (chain, key) {
        (Some(chain), Some(key)) => Ok((chain, key)),
        _ => Err(Error::usage(cannot())
            .cause("it must have a certificate and its private key in PEM")
            .hint("cargo osbuild keys issue NAME USER --role ROLE")),
    }
}
