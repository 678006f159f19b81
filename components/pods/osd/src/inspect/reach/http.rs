//! Makes an HTTP request (RFC 9112), and reads no body.

use super::steps::{Failed, Steps, Stop};
use super::tcp::connect;
use super::tls::{self, Demand};
use hyper::client::conn::http1;
use hyper::http::header::{
    CONNECTION, CONTENT_TYPE, DATE, HOST, HeaderMap, HeaderName, LOCATION, SERVER, USER_AGENT,
};
use hyper::http::uri::Scheme;
use hyper::{Method, Request, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use osbuild_cosi::v1::ReachHttp;
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;

/// The headers that are shown. None of them carries a secret of the server.
const SHOWN: [HeaderName; 4] = [SERVER, DATE, CONTENT_TYPE, LOCATION];

/// Of a header, the most that is shown, in bytes.
const MAX_HEADER: usize = 200;

/// The most that a server may send before the end of its headers, in bytes.
const MAX_HEADERS: usize = 16 << 10;

/// A URL that the node requests.
struct Target {
    is_secure: bool,
    host: String,
    port: u16,
    uri: Uri,
}

/// The status line of a response, and the headers that are shown.
struct Answer {
    version: Version,
    status: StatusCode,
    headers: String,
}

/// Connects, opens TLS for `https`, and makes the request.
pub async fn probe(request: ReachHttp, steps: &Steps<'_>) -> Result<String, Stop> {
    let ReachHttp { url, get, insecure } = request;
    let target = Target::parse(&url)?;
    let (stream, address) = connect(&target.host, target.port, steps).await?;
    let stream: Box<dyn Stream> = match target.is_secure {
        false => Box::new(stream),
        true => {
            let demand = if insecure { Demand::Any } else { Demand::Verified };
            let host = target.host.trim_matches(['[', ']']);
            let opened = tls::open(stream, host, &steps.files.authorities, demand);
            let opened = steps.run("tls", address, opened, |(_, words)| words.clone()).await;
            let unreached = |failed: Failed| {
                Stop::Unreached(format!("no TLS with {}: {}", target.host, failed.error))
            };
            Box::new(opened.map_err(unreached)?.0)
        }
    };
    let method = if get { Method::GET } else { Method::HEAD };
    let peer = format!("{method} {url}");
    let answer = steps.run("response", peer, send(stream, method, &target), Answer::words).await;
    match answer {
        Ok(answer) => Ok(format!("{url} answers with {}", answer.status)),
        Err(failed) => Err(Stop::Unreached(format!("{url} does not answer: {}", failed.error))),
    }
}

/// A connection with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn send(stream: Box<dyn Stream>, method: Method, target: &Target) -> Result<Answer, Failed> {
    let failed = |error: hyper::Error| {
        let meaning = match error.is_parse() {
            true => "another program than an HTTP server listens there, or it wants https",
            false if error.is_incomplete_message() || error.is_canceled() => {
                "the server closes the connection: it wants https, or its program has failed"
            }
            false => "",
        };
        Failed::new(error.to_string(), meaning)
    };
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let path = target.uri.path_and_query().map_or("/", |path| path.as_str());
    let host = target.uri.authority().map_or("", |authority| authority.as_str());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header(USER_AGENT, "osctl-reach")
        .header(CONNECTION, "close")
        .body(Body::empty())
        .map_err(|error| Failed::new(error.to_string(), ""))?;
    let mut response = pin!(sender.send_request(request));
    // A connection that has ended has left the response, or the error, behind.
    let response = tokio::select! {
        response = &mut response => response,
        _ = connection => response.await,
    };
    let response = response.map_err(failed)?;
    let (version, status) = (response.version(), response.status());
    Ok(Answer { version, status, headers: headers(response.headers()) })
}

fn headers(headers: &HeaderMap) -> String {
    let shown = SHOWN.iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some(format!(", {name}: {}", value.get(..MAX_HEADER).unwrap_or(value)))
    });
    shown.collect()
}

impl Answer {
    fn words(&self) -> String {
        format!("{:?} {}{}", self.version, self.status, self.headers)
    }
}

impl Target {
    fn parse(url: &str) -> Result<Target, Stop> {
        let malformed =
            || Stop::malformed("a URL is `http://HOST/…` or `https://HOST/…`, without a user");
        let uri: Uri = url.parse().map_err(|_| malformed())?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(malformed()),
        };
        let authority = uri.authority().ok_or_else(malformed)?;
        let host = authority.host().to_owned();
        if authority.as_str().contains('@') || host.is_empty() {
            return Err(malformed());
        }
        let port = match authority.as_str().strip_prefix(host.as_str()) {
            Some("") => {
                if is_secure {
                    443
                } else {
                    80
                }
            }
            _ => authority.port_u16().filter(|port| *port > 0).ok_or_else(malformed)?,
        };
        Ok(Target { is_secure, host, port, uri })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_no_user() {
        for (url, host, port) in [
            ("http://10.0.2.2", "10.0.2.2", 80),
            ("https://api.example.org/healthz?x", "api.example.org", 443),
            ("https://[fd00::1]:6443/", "[fd00::1]", 6443),
        ] {
            let target = Target::parse(url).unwrap_or_else(|_| panic!("{url}"));
            assert_eq!((target.host.as_str(), target.port), (host, port));
        }
        for wrong in [
            "",
            "10.0.2.2",
            "/path",
            "ftp://10.0.2.2/",
            "http://user:password@10.0.2.2/",
            "http://",
            "http://a:0/",
            "http://a:99999/",
            "http://a:/",
            "http://a b/",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
