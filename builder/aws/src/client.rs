//! Sends signed calls to AWS, and retries temporary failures.

use super::retry::TICK;
use super::{Credentials, Failure, Method, Region, Request, Response, Retry, Service, Transport};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http_body::{Frame, SizeHint};
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::{Context, SignRequest};
use reqwest::redirect::Policy;
use std::convert::Infallible;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Instant;
use tokio::runtime::{self, Runtime};

/// The upper limit of a response in bytes.
const MAX_RESPONSE: usize = 16 << 20;

/// How many bytes of a request are handed to the connection at once.
const CHUNK: usize = 64 << 10;

/// How many calls are made at the same time, each on its own connection.
const WORKERS: usize = 16;

/// AWS, as this machine reaches it.
pub struct Client {
    runtime: Runtime,
    http: reqwest::Client,
    credentials: Credentials,
    retry: Retry,
    endpoints: Vec<(Service, String)>,
}

impl Client {
    /// A client with the credentials and endpoints of this process's environment:
    /// `AWS_ENDPOINT_URL_EBS` and so on, or `AWS_ENDPOINT_URL` for all services.
    ///
    /// # Errors
    /// This machine has no certificates of TLS authorities.
    pub fn from_environment(retry: Retry) -> io::Result<Self> {
        let endpoint = |service: Service| {
            let own = format!("AWS_ENDPOINT_URL_{}", service.name().to_uppercase());
            let found = [own.as_str(), "AWS_ENDPOINT_URL"]
                .into_iter()
                .find_map(|name| std::env::var(name).ok());
            Some((service, found.filter(|address| !address.is_empty())?))
        };
        let endpoints =
            [Service::Ebs, Service::Ec2, Service::Kms].into_iter().filter_map(endpoint).collect();
        Client::new(Credentials::from_environment(&retry)?, retry, endpoints)
    }

    /// A client with these credentials. `endpoints` override the addresses of services.
    ///
    /// # Errors
    /// This machine has no certificates of TLS authorities.
    pub fn new(
        credentials: Credentials,
        retry: Retry,
        endpoints: Vec<(Service, String)>,
    ) -> io::Result<Self> {
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .pool_max_idle_per_host(WORKERS)
            .connect_timeout(retry.connect_timeout)
            .user_agent(concat!("osbuild/", env!("CARGO_PKG_VERSION")));
        let http = http.build().map_err(|error| io::Error::other(reason(&error)))?;
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Client { runtime, http, credentials, retry, endpoints })
    }

    async fn once(
        &self,
        region: &Region,
        request: &Request,
        credential: &Credential,
    ) -> Result<Response, Failure> {
        let invalid = |error: &dyn std::fmt::Display| {
            Failure::Invalid(format!("the request cannot be written: {error}"))
        };
        let (mut head, ()) =
            self.head(region, request).map_err(|error| invalid(&error))?.into_parts();
        let signer = RequestSigner::new(request.action.service().name(), region.name())
            .with_standard_session_token();
        let signed = signer.sign_request(&Context::new(), &mut head, Some(credential), None).await;
        signed.map_err(|error| invalid(&error.kind()))?;
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(request.body.len()));
        let progress = Arc::new(Mutex::new(Instant::now()));
        let body = Chunks { left: request.body.clone(), progress: Arc::clone(&progress) };
        let sent = http::Request::from_parts(head, reqwest::Body::wrap(body));
        let sent = sent.try_into().map_err(|error: reqwest::Error| invalid(&error))?;
        let mut exchange = pin!(self.exchange(sent, &progress));
        let mut watch = pin!(watch(&self.retry, &progress));
        poll_fn(|context| match exchange.as_mut().poll(context) {
            Poll::Pending => watch.as_mut().poll(context).map(Err),
            done => done,
        })
        .await
    }

    /// Sends a request and receives its response.
    async fn exchange(
        &self,
        request: reqwest::Request,
        progress: &Mutex<Instant>,
    ) -> Result<Response, Failure> {
        let mut response = self.http.execute(request).await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            touch(progress);
            body.extend_from_slice(&chunk);
            if body.len() > MAX_RESPONSE {
                return Err(Failure::Invalid("the response is longer than 16 MiB".to_owned()));
            }
        }
        if response.status().is_success() {
            return Ok(Response { body });
        }
        let code = response.headers().get("x-amzn-errortype").and_then(|code| code.to_str().ok());
        Err(Failure::refused(response.status().as_u16(), code, body))
    }

    /// The head of a request, without its signature.
    fn head(&self, region: &Region, request: &Request) -> http::Result<http::Request<()>> {
        let service = request.action.service();
        let own = self.endpoints.iter().find(|(named, _)| *named == service);
        let endpoint = own.map_or_else(|| region.endpoint(service), |(_, address)| address.clone());
        let method = match request.method {
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
        };
        let sha256: String = request.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        let head = http::Request::builder()
            .method(method)
            .uri(format!("{}{}", endpoint.trim_end_matches('/'), request.path))
            .header("x-amz-content-sha256", sha256);
        request.headers.iter().fold(head, |head, (name, value)| head.header(*name, value)).body(())
    }
}

impl Transport for Client {
    fn call(&self, region: &Region, request: &Request) -> Result<Response, Failure> {
        let mut failed = 0;
        let mut renewed = false;
        loop {
            let credential = self.runtime.block_on(self.credentials.get())?;
            let failure = match self.runtime.block_on(self.once(region, request, &credential)) {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if failure.is_expired()
                && !renewed
                && self.runtime.block_on(self.credentials.replace(&credential))
            {
                renewed = true;
                continue;
            }
            failed += 1;
            if failed >= self.retry.tries || !failure.is_temporary(request.action) {
                return Err(failure);
            }
            let pause = self.retry.pause(failed, chance());
            self.retry.sleep(pause).map_err(|_| Failure::Stopped)?;
        }
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn retry(&self) -> &Retry {
        &self.retry
    }
}

/// The body of a request. Each chunk that the connection takes counts as progress.
struct Chunks {
    left: Bytes,
    progress: Arc<Mutex<Instant>>,
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        touch(&self.progress);
        let length = self.left.len().min(CHUNK);
        let chunk = self.left.split_to(length);
        Poll::Ready((!chunk.is_empty()).then_some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

fn touch(progress: &Mutex<Instant>) {
    *progress.lock().expect("no panic while the time is set") = Instant::now();
}

/// Ends when the user wants to stop, or when an exchange makes no progress.
async fn watch(retry: &Retry, progress: &Mutex<Instant>) -> Failure {
    loop {
        tokio::time::sleep(TICK).await;
        if (retry.is_stopped)() {
            return Failure::Stopped;
        }
        let idle = progress.lock().expect("no panic while the time is set").elapsed();
        if idle > retry.idle_timeout {
            return Failure::Unreachable(format!("no response for {} seconds", idle.as_secs()));
        }
    }
}

fn unreachable(error: reqwest::Error) -> Failure {
    Failure::Unreachable(reason(&error))
}

/// The innermost cause, which names the reason: the outer ones repeat the address.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), reason)
}

/// A number from 0 to 1 that differs from call to call.
fn chance() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}
