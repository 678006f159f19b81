//! `init cluster NODE-NAME` ends well when the API server reports the node as Ready in this boot.
//! It asks with the kubelet's own credentials, which may read the node's own object (Node
//! authorizer).

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_kubeconfig::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, StreamOwned};
use serde::Deserialize;
use x509_cert::time::Time;

use super::client_certificate::{self, roots};
use super::node_labels::{self, Labels};
use crate::daemons::credentials;
use crate::host::registration::node_object;

/// The time between two requests.
const INTERVAL: Duration = Duration::from_secs(3);
/// The time limit for a connection, and for each read and write on it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response that is read, in bytes. A Node that lists 50 images has about 20 KiB.
const MAX_RESPONSE: u64 = 4 << 20;
/// The kernel's identifier of this boot, which the kubelet reports as `bootID`.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The port of an `https` URL without one.
const HTTPS_PORT: u16 = 443;

/// Waits until the node is Ready, and prints why it is not each time the reason changes. Then it
/// gives the node the labels that the arguments have, and reports what the node has.
pub fn wait(node_name: &str, labels: &[&str]) -> Outcome {
    let labels = Labels::parse(labels)?;
    let boot_id = std::fs::read_to_string(BOOT_ID).explain(format_args!("read {BOOT_ID}"))?;
    let mut printed = String::new();
    loop {
        let reason =
            match readiness(Path::new(credentials::kubeconfig()), node_name, boot_id.trim()) {
                Ok(Readiness::Ready(config)) => {
                    return node_object::write(&node_labels::settle(&config, node_name, &labels));
                }
                Ok(Readiness::NotReady(reason)) => reason,
                Err(failure) => failure.to_string(),
            };
        if reason != printed {
            println!("not Ready: {reason}");
            printed = reason;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Whether the API server reports the node as Ready.
#[derive(Debug, PartialEq, Eq)]
enum Readiness<T = ()> {
    /// With what was asked.
    Ready(T),
    /// With the reason.
    NotReady(String),
}

/// Asks the API server that the kubeconfig names.
fn readiness(kubeconfig: &Path, node_name: &str, boot_id: &str) -> Outcome<Readiness<Kubeconfig>> {
    let Some(config) = Kubeconfig::read(kubeconfig)? else {
        return Ok(Readiness::NotReady("the kubelet has no kubeconfig yet".to_owned()));
    };
    let server = Server::parse(config.server().unwrap_or_default())?;
    let path = server.node(node_name);
    let response = server
        .ask(&config, &Method::Get, &path)
        .explain(format_args!("ask {}", server.authority()))?;
    // An API server that cannot be reached is reported first: a certificate comes from it.
    let end = match config.client_certificate()? {
        Some(chain) => Some(client_certificate::end(&chain)?),
        None if config.token()?.is_some() => None,
        None => return Ok(Readiness::NotReady("the kubelet has no certificate yet".to_owned())),
    };
    match end.filter(|end| end.to_system_time() < SystemTime::now()) {
        Some(end) => Ok(Readiness::NotReady(expired(end))),
        None => Ok(match parse_response(&response, boot_id, end)? {
            Readiness::Ready(()) => Readiness::Ready(config),
            Readiness::NotReady(reason) => Readiness::NotReady(reason),
        }),
    }
}

/// The kubelet does not use a certificate that has expired by the node's clock, whether or not the
/// API server's clock agrees.
fn expired(end: Time) -> String {
    format!("the node's certificate has expired by the node's clock: it was valid until {end}")
}

/// The reason why the node is not ready after a response with status 401. It includes the end of
/// the client certificate's validity, if there is a certificate, for the node's owner to check.
fn unauthorized(end: Option<Time>) -> String {
    match end {
        Some(end) => format!(
            "the API server does not accept the node's certificate, which is valid until {end}"
        ),
        None => "the API server does not accept the node's credentials".to_owned(),
    }
}

/// The method of a request, with its body.
pub enum Method {
    /// Reads an object.
    Get,
    /// Changes an object with a merge patch (RFC 7396).
    Patch(String),
}

impl Method {
    /// The head of a request for `path`, without the line that ends it, and its body.
    fn head(&self, path: &str, authority: &str) -> (String, &str) {
        // HTTP/1.0: the body of the response ends with the connection, so it needs no decoding.
        let common =
            format!("{path} HTTP/1.0\r\nHost: {authority}\r\nAccept: application/json\r\n");
        match self {
            Self::Get => (format!("GET {common}"), ""),
            Self::Patch(body) => {
                let length = body.len();
                let kind = "application/merge-patch+json";
                let own = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n");
                (format!("PATCH {common}{own}"), body)
            }
        }
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

    fn authority(&self) -> String {
        let Server { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The path of the node's object.
    pub fn node(&self, node_name: &str) -> String {
        format!("{}/api/v1/nodes/{node_name}", self.path)
    }

    /// The response to a request for `path`: its status line, headers and body.
    pub fn ask(&self, config: &Kubeconfig, method: &Method, path: &str) -> Outcome<Vec<u8>> {
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
        stream.write_all(request.as_bytes()).map_err(|error| not_sent(&error))?;
        let mut response = Vec::new();
        stream.take(MAX_RESPONSE).read_to_end(&mut response).explain("read the response")?;
        Ok(response)
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
fn not_sent(error: &std::io::Error) -> Failure {
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
        _ => Failure::new(format!("send the request: {error}")),
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

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
struct NodeInfo {
    #[serde(default, rename = "bootID")]
    boot_id: String,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    message: String,
}

/// The head of a response, which is empty if it has none, and its body.
pub fn split(response: &[u8]) -> (Cow<'_, str>, &[u8]) {
    let head = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, body) = response.split_at(head.map_or(0, |end| end + 4));
    (String::from_utf8_lossy(head), body)
}

/// Reads the response to a request for the node's object. Until the kubelet has reported the status
/// of this boot, the object has that of an earlier one, which says nothing. `end` is that of the
/// client certificate with which the request was made.
fn parse_response(response: &[u8], boot_id: &str, end: Option<Time>) -> Outcome<Readiness> {
    let (head, body) = split(response);
    match head.split_ascii_whitespace().nth(1) {
        Some("200") => {}
        Some("401") => return Ok(Readiness::NotReady(unauthorized(end))),
        Some("404") => {
            let reason = "the cluster has no Node object for it yet";
            return Ok(Readiness::NotReady(reason.to_owned()));
        }
        Some(_) => {
            let status = head.lines().next().unwrap_or_default();
            return Ok(Readiness::NotReady(format!("the API server answers `{status}`")));
        }
        None => return Err(Failure::new("the API server's response is not HTTP")),
    }
    let node: Node = serde_json::from_slice(body).explain("read the node's object")?;
    let is_current = node.status.node_info.boot_id == boot_id;
    let ready = node.status.conditions.into_iter().find(|condition| condition.kind == "Ready");
    Ok(match ready.filter(|_| is_current) {
        Some(condition) if condition.status == "True" => Readiness::Ready(()),
        Some(condition) => Readiness::NotReady(condition.message),
        None => Readiness::NotReady("the kubelet has not reported its status yet".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_cert::der::DateTime;
    use x509_cert::der::asn1::GeneralizedTime;

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
        let patch = Method::Patch("{\"\u{e9}\":1}".to_owned());
        let (head, body) = patch.head("/a", "b:443");
        let kind = "Content-Type: application/merge-patch+json\r\nContent-Length: 8\r\n";
        assert!(head.starts_with("PATCH /a HTTP/1.0\r\n") && head.ends_with(kind), "{head}");
        assert_eq!(body, "{\"\u{e9}\":1}");
    }

    #[test]
    fn the_condition_ready_of_the_object_decides() {
        let end = DateTime::new(2026, 11, 24, 10, 0, 0).unwrap();
        let end = Time::from(GeneralizedTime::from_date_time(end));
        let parse = |response: &[u8]| parse_response(response, "2", Some(end));
        let response = |status: &str, body: &str| {
            parse(format!("HTTP/1.0 {status}\r\nA: b\r\n\r\n{body}").as_bytes())
        };
        let of_boot = |boot: &str, conditions: &str| {
            let info = format!(r#""nodeInfo": {{"bootID": "{boot}"}}"#);
            let status = format!(r#"{{"status": {{{info}, "conditions": [{conditions}]}}}}"#);
            response("200 OK", &status)
        };
        let node = |conditions: &str| of_boot("2", conditions);
        let not = |reason: &str| Ok(Readiness::NotReady(reason.to_owned()));
        let not_yet = || not("the kubelet has not reported its status yet");
        let pressure = r#"{"type": "DiskPressure", "status": "True"}"#;
        assert_eq!(
            node(&format!(r#"{pressure}, {{"type": "Ready", "status": "True"}}"#)),
            Ok(Readiness::Ready(()))
        );
        assert_eq!(
            node(r#"{"type": "Ready", "status": "False", "message": "no CNI"}"#),
            not("no CNI")
        );
        assert_eq!(node(pressure), not_yet());
        assert_eq!(of_boot("1", r#"{"type": "Ready", "status": "True"}"#), not_yet());
        assert_eq!(response("200 OK", "{}"), not_yet());
        assert_eq!(
            response("401 Unauthorized", "{}"),
            not("the API server does not accept the node's certificate, which is valid until \
                 2026-11-24T10:00:00Z")
        );
        assert_eq!(
            response("404 Not Found", "{}"),
            not("the cluster has no Node object for it yet")
        );
        assert_eq!(
            response("403 Forbidden", "{}"),
            not("the API server answers `HTTP/1.0 403 Forbidden`")
        );
        assert!(response("200 OK", "no JSON").is_err());
        assert!(parse(b"SSH-2.0-OpenSSH_9.2\r\n").is_err());
        assert!(parse(b"").is_err());
    }
}
