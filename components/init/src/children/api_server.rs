//! Requests to the API server with the kubelet's own credentials: one connection for each, over
//! HTTP/1.0.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_kubeconfig::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, StreamOwned};

use super::client_certificate::roots;
use crate::api_response::MAX_RESPONSE;

/// The time limit for a connection, and for each read and write on it.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// The port of an `https` URL without one.
const HTTPS_PORT: u16 = 443;

/// The method of a request, with its body.
pub enum Method {
    /// Reads an object.
    Get,
    /// Changes an object with a merge patch (RFC 7396).
    MergePatch(String),
    /// Changes an object with a patch that finds elements of lists by their keys, as only objects
    /// of Kubernetes have them.
    StrategicPatch(String),
    /// Makes an object.
    Post(String),
}

impl Method {
    /// The verb, and the type of the body with the body, if there is one.
    fn parts(&self) -> (&'static str, Option<(&'static str, &str)>) {
        match self {
            Self::Get => ("GET", None),
            Self::MergePatch(body) => ("PATCH", Some(("application/merge-patch+json", body))),
            Self::StrategicPatch(body) => {
                ("PATCH", Some(("application/strategic-merge-patch+json", body)))
            }
            Self::Post(body) => ("POST", Some(("application/json", body))),
        }
    }

    /// The head of a request for `path`, without the line that ends it, and its body.
    fn head(&self, path: &str, authority: &str) -> (String, &str) {
        let (verb, body) = self.parts();
        // HTTP/1.0: the body of the response ends with the connection, so it needs no decoding.
        let mut head =
            format!("{verb} {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: application/json\r\n");
        let Some((kind, body)) = body else { return (head, "") };
        head.push_str(&format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len()));
        (head, body)
    }
}

/// The parts of an API server's URL.
#[derive(Debug, PartialEq, Eq)]
pub struct Server<'u> {
    /// A name or an address, without the brackets of IPv6.
    host: &'u str,
    port: u16,
    /// The prefix of the API's paths; usually empty.
    path: &'u str,
}

impl<'u> Server<'u> {
    /// Reads a URL.
    pub fn parse(url: &'u str) -> Outcome<Self> {
        let malformed = || Failure::new(format!("`{url}` is not the `https` URL of an API server"));
        let rest = url.strip_prefix("https://").ok_or_else(malformed)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(malformed)?,
            None => authority.split_at(authority.rfind(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| malformed())?,
            None if port.is_empty() => HTTPS_PORT,
            None => return Err(malformed()),
        };
        if host.is_empty() {
            return Err(malformed());
        }
        Ok(Server { host, port, path: path.trim_end_matches('/') })
    }

    /// The host with the port.
    pub fn authority(&self) -> String {
        let Server { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The path of the node's object.
    pub fn node(&self, node_name: &str) -> String {
        format!("{}/api/v1/nodes/{node_name}", self.path)
    }

    /// The path of a watch of the node's object, which the API server ends after `lifetime`. A node
    /// may watch no other.
    pub fn node_watch(&self, node_name: &str, lifetime: Duration) -> String {
        format!(
            "{}/api/v1/nodes?watch=true&timeoutSeconds={}&fieldSelector=metadata.name%3D{node_name}",
            self.path,
            lifetime.as_secs()
        )
    }

    /// The path of the events about nodes.
    pub fn node_events(&self) -> String {
        format!("{}/api/v1/namespaces/default/events", self.path)
    }

    /// The response to a request for `path`: its status line, headers and body.
    pub fn ask(&self, config: &Kubeconfig, method: &Method, path: &str) -> Outcome<Vec<u8>> {
        let stream = self.open(config, method, path, TIMEOUT)?;
        let mut response = Vec::new();
        stream.take(MAX_RESPONSE).read_to_end(&mut response).explain("read the response")?;
        Ok(response)
    }

    /// Sends a request for `path`, and returns the stream of the response, of which each part comes
    /// within `timeout`.
    pub fn open(
        &self,
        config: &Kubeconfig,
        method: &Method,
        path: &str,
        timeout: Duration,
    ) -> Outcome<impl Read> {
        let name = config.tls_server_name().unwrap_or(self.host).to_owned();
        let name = ServerName::try_from(name).explain("read the API server's name")?;
        let tls = ClientConnection::new(Arc::new(tls_config(config)?), name)
            .explain("prepare the connection")?;
        let mut stream = StreamOwned::new(tls, self.connect()?);
        let (mut request, body) = method.head(path, &self.authority());
        if let Some(token) = config.token()? {
            request.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        stream.write_all(request.as_bytes()).map_err(not_sent)?;
        stream.sock.set_read_timeout(Some(timeout)).explain("set the time limit")?;
        Ok(stream)
    }

    /// Connects to the first of the host's addresses that answers.
    fn connect(&self) -> Outcome<TcpStream> {
        let addresses = (self.host, self.port).to_socket_addrs().explain("look the name up")?;
        let mut last = Failure::new("the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, TIMEOUT).explain("connect") {
                Ok(stream) => {
                    stream.set_read_timeout(Some(TIMEOUT)).explain("set the time limit")?;
                    stream.set_write_timeout(Some(TIMEOUT)).explain("set the time limit")?;
                    return Ok(stream);
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }
}

/// Why a request was not sent. The usual reasons are an API server with another CA, whose name is
/// often that of the earlier one, and a wrong clock.
fn not_sent(error: io::Error) -> Failure {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    match tls {
        Some(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => Failure::new("its certificate is not from the CA that the node has"),
        Some(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => Failure::new("its certificate is not valid yet by the node's clock"),
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => Failure::new("its certificate has expired by the node's clock"),
        _ => Failure::of("send the request", error),
    }
}

/// TLS with the cluster's certificate authority, and with the client certificate if there is one.
fn tls_config(config: &Kubeconfig) -> Outcome<ClientConfig> {
    let roots = roots(&config.certificate_authority()?.unwrap_or_default())?;
    let builder =
        ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .explain("prepare TLS")?
            .with_root_certificates(roots);
    let (Some(certificate), Some(key)) = (config.client_certificate()?, config.client_key()?)
    else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .explain("read the client certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).explain("read the client key")?;
    builder.with_client_auth_cert(chain, key).explain("use the client certificate")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Option<(String, &str)> {
        Server::parse(url).ok().map(|server| (server.authority(), server.path))
    }

    #[test]
    fn the_api_server_may_be_a_name_an_address_or_a_path_below_either() {
        let is = |url, authority: &str, path| {
            assert_eq!(server(url), Some((authority.to_owned(), path)), "{url}");
        };
        is("https://10.0.2.2:6443", "10.0.2.2:6443", "");
        is("https://api.example", "api.example:443", "");
        is("https://[fd00::1]:6443/", "[fd00::1]:6443", "");
        is("https://[fd00::1]", "[fd00::1]:443", "");
        is("https://rancher.example/k8s/clusters/c-1", "rancher.example:443", "/k8s/clusters/c-1");
        for url in ["", "http://a", "https://", "https://a:b", "https://[fd00::1", "https://[::]1"]
        {
            assert_eq!(server(url), None, "{url}");
        }
    }

    #[test]
    fn a_request_has_its_body_and_the_length_of_it() {
        let (head, body) = Method::Get.head("/a", "b:443");
        let expected = "GET /a HTTP/1.0\r\nHost: b:443\r\nAccept: application/json\r\n";
        assert_eq!((head.as_str(), body), (expected, ""));
        let patch = Method::MergePatch("{\"\u{e9}\":1}".to_owned());
        let (head, body) = patch.head("/a", "b:443");
        let kind = "Content-Type: application/merge-patch+json\r\nContent-Length: 8\r\n";
        assert!(head.starts_with("PATCH /a HTTP/1.0\r\n") && head.ends_with(kind), "{head}");
        assert_eq!(body, "{\"\u{e9}\":1}");
    }
}
