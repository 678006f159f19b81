//! A plain cache, as bazel-remote has it: `GET`, `HEAD` and `PUT` of `/ac/HASH` and `/cas/HASH`.

use crate::checked::Checked;
use crate::chunks::FileBody;
use crate::fault::{line, reason};
use crate::headers::Headers;
use crate::progress::Progress;
use crate::{Access, Address, BlobId, Fault, Retry};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Identity, Method, Response, StatusCode};
use std::io::{Read, Write};
use std::sync::Arc;
use tokio::task::JoinSet;

/// The upper limit of a result in bytes.
const MAX_RESULT: usize = 4 << 20;

/// The number of blobs that a cache is asked for at the same time, each with a request of its own.
const MAX_AT_ONCE: usize = 16;

/// A client of a plain cache.
pub(crate) struct Http {
    http: reqwest::Client,
    headers: Headers,
    address: Address,
}

impl Http {
    pub(crate) fn new(address: &Address, access: &Access, retry: &Retry) -> Result<Self, Fault> {
        let refused = |error: reqwest::Error| Fault::Refused(reason(&error));
        let mut client = reqwest::Client::builder()
            .redirect(Policy::none())
            .connect_timeout(retry.connect_timeout)
            .user_agent(crate::cache::AGENT);
        if address.is_loopback() {
            // A secret for a cache here goes without encryption, and must not leave this machine.
            client = client.no_proxy();
        }
        if let Some(roots) = &access.roots {
            let roots = Certificate::from_pem_bundle(roots).map_err(refused)?;
            client = client.tls_certs_only(roots);
        }
        if let Some((certificate, key)) = &access.identity {
            let both = [certificate.as_slice(), b"\n", key].concat();
            client = client.identity(Identity::from_pem(&both).map_err(refused)?);
        }
        let headers = Headers::new(address, access)?;
        Ok(Http { http: client.build().map_err(refused)?, headers, address: address.clone() })
    }

    pub(crate) async fn result(&self, action: &BlobId) -> Result<Bytes, Fault> {
        let mut response = self.get("ac", action).await?;
        let mut result = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(cut)? {
            result.extend_from_slice(&piece);
            if result.len() > MAX_RESULT {
                return Err(Fault::Refused("its result is longer than 4 MiB".to_owned()));
            }
        }
        Ok(result.into())
    }

    pub(crate) async fn put_result(&self, action: &BlobId, result: &[u8]) -> Result<(), Fault> {
        let body = reqwest::Body::from(result.to_vec());
        self.send(Method::PUT, "ac", action, Some(body)).await.map(drop)
    }

    /// Those of these blobs that the cache lacks. Each answer is progress, because thousands of
    /// them take longer than the timeout of one.
    pub(crate) async fn missing(
        self: &Arc<Self>,
        blobs: &[BlobId],
        progress: &Progress,
    ) -> Result<Vec<BlobId>, Fault> {
        let (mut blobs, mut open, mut missing) = (blobs.iter(), JoinSet::new(), Vec::new());
        loop {
            while open.len() < MAX_AT_ONCE
                && let Some(blob) = blobs.next()
            {
                let (http, blob) = (Arc::clone(self), blob.clone());
                open.spawn(async move { Ok((!http.has(&blob).await?).then_some(blob)) });
            }
            let Some(answer) = open.join_next().await else { return Ok(missing) };
            progress.touch();
            missing.extend(answer.expect("a question neither panics nor is aborted")?);
        }
    }

    async fn has(&self, blob: &BlobId) -> Result<bool, Fault> {
        match self.send(Method::HEAD, "cas", blob, None).await {
            Ok(_) => Ok(true),
            Err(Fault::Missing) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Reads one blob into `out`, checked.
    pub(crate) async fn read<W: Write>(
        &self,
        blob: &BlobId,
        out: W,
        progress: &Progress,
    ) -> Result<W, Fault> {
        let mut out = Checked::new(blob, out);
        let mut response = self.get("cas", blob).await?;
        while let Some(piece) = response.chunk().await.map_err(cut)? {
            progress.received(piece.len());
            if let Err(error) = out.write_all(&piece) {
                return Err(out.fault(error));
            }
        }
        out.finish(blob)
    }

    pub(crate) async fn write(
        &self,
        blob: &BlobId,
        from: Box<dyn Read + Send + Sync>,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let body = FileBody::new(from, blob.length(), progress.clone());
        self.send(Method::PUT, "cas", blob, Some(reqwest::Body::wrap(body))).await.map(drop)
    }

    async fn get(&self, kind: &str, blob: &BlobId) -> Result<Response, Fault> {
        self.send(Method::GET, kind, blob, None).await
    }

    async fn send(
        &self,
        method: Method,
        kind: &str,
        blob: &BlobId,
        body: Option<reqwest::Body>,
    ) -> Result<Response, Fault> {
        let url = self.address.file(kind, &blob.hash);
        let mut request = self.http.request(method, url).headers(self.headers.get().await?);
        if let Some(body) = body {
            if kind == "cas" {
                request = request.header(CONTENT_LENGTH, blob.size);
            }
            request = request.body(body);
        }
        let response = request.send().await.map_err(cut)?;
        let text = || format!("HTTP {}", line(&response.status().to_string()));
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND | StatusCode::GONE => Err(Fault::Missing),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Err(Fault::Temporary(text()))
            }
            status if status.is_server_error() => Err(Fault::Temporary(text())),
            _ => Err(Fault::Refused(text())),
        }
    }
}

fn cut(error: reqwest::Error) -> Fault {
    Fault::Temporary(line(&reason(&error)))
}
